"""Underpass's user-level threads in gdb, in live processes and cores alike.

    (gdb) source tools/gdb/underpass.py
    (gdb) underpass threads        every thread: number, name, state, what it waits for
    (gdb) underpass bt NUMBER      the backtrace of a suspended one
    (gdb) underpass bt all         the backtraces of all suspended threads
    (gdb) underpass enter NUMBER   gdb's own commands (bt, up, down, frame, info locals) show this thread
    (gdb) underpass leave          gdb's own commands show the selected kernel thread again

It only reads memory, and writes neither memory nor registers. A table in the program describes the layout
(crates/underpass-threads/src/diagnose/debugger_table.rs).
"""

import re

import gdb
from gdb.unwinder import Unwinder

VERSION = 1
KERNEL, NAMED, SERVES = 64, 4, 32
ANY, ENDED, UNSTARTED = 2**32 - 2, 2**32 - 3, 2**32 - 1


def memory(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def word(address, size=8):
    return int.from_bytes(memory(address, size), "little")


class Table:
    """The program's table: where control blocks are, and where their fields lie."""

    def __init__(self):
        try:
            # The syntax of expressions depends on the language. That of `info` doesn't.
            output = gdb.execute("info address UNDERPASS_THREADS", to_string=True)
            self.at = int(re.search(r"0x[0-9a-f]+", output).group(), 16)
        except (gdb.error, AttributeError):
            raise gdb.GdbError("This program has no Underpass in it, or no symbols.")
        if memory(self.at, 8) != b"UNDERPAS":
            raise gdb.GdbError("Underpass's table is not there: has the program been started?")
        self.at += 8
        if self.next() != VERSION:
            raise gdb.GdbError("This script goes with another version of Underpass.")
        self.first, self.block = self.next(), self.next()
        fields = "next home flags number holders context wait since waits_for"
        self.field = {name: self.next() for name in fields.split()}
        self.stopped, self.low, self.length = self.next(), self.next(), self.next()
        self.current, self.in_blocking_call, self.ready, self.inbox = (self.next() for _ in range(4))
        self.field["name"] = self.next()
        self.chunks = self.words()
        self.activations = {number: at for number, at in enumerate(self.words()) if at}

    def next(self):
        value = word(self.at)
        self.at += 8
        return value

    def words(self):
        count = self.next()
        data = memory(self.at, 8 * count)
        self.at += 8 * count
        return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]

    def linked(self, first):
        found = set()
        while first and first not in found:
            found.add(first)
            first = word(first + self.field["next"])
        return found

    def threads(self):
        running = {word(at + self.current): number for number, at in self.activations.items()}
        calling = {word(at + self.in_blocking_call): number for number, at in self.activations.items()}
        ready = set()
        for at in self.activations.values():
            ready |= self.linked(word(at + self.ready)) | self.linked(word(at + self.inbox))
        found = []
        for chunk, begin in enumerate(self.chunks):
            for place in range(self.first << chunk if begin else 0):
                thread = Thread(self, begin + place * self.block, running, calling, ready)
                if thread.holders:
                    found.append(thread)
        return found


class Thread:
    """One thread, as its control block describes it."""

    def __init__(self, table, at, running, calling, ready):
        self.table, self.at = table, at
        # One read of the block for all of its fields.
        self.bytes = memory(at, table.block)
        self.holders = self.get("holders", 4)
        self.number, self.flags, self.home = self.get("number"), self.get("flags", 4), self.get("home", 4)
        self.waits_for = self.get("waits_for")
        if self.flags & KERNEL:
            self.state = "kernel thread"
        elif at in running:
            self.state = "running"
        elif at in calling:
            self.state = "in a blocking call"
        elif self.home == UNSTARTED:
            self.state = "not started"
        elif self.home == ENDED:
            self.state = "ended, not joined"
        elif self.home == ANY or at in ready:
            self.state = "ready"
        else:
            self.state = "blocked"

    def get(self, name, size=8):
        offset = self.table.field[name]
        return int.from_bytes(self.bytes[offset : offset + size], "little")

    def id(self):
        return shown(self.number)

    def name(self):
        if not self.flags & NAMED:
            return ""
        at, length = self.get("name"), int.from_bytes(self.bytes[self.table.field["name"] + 8 :][:8], "little")
        return memory(at, length).decode(errors="replace") if at and length < 4096 else ""

    def activation(self):
        return str(self.home) if self.home < ENDED else "-"

    def context(self):
        """The registers where it stopped, by name, if it is suspended."""
        context = self.get("context")
        if self.state not in ("blocked", "ready") or not context:
            return None
        stopped = word(context + self.table.stopped)
        low, length = word(context + self.table.low), word(context + self.table.length)
        if not low < stopped < low + length:
            return None
        # switch.rs leaves the return address, rbx and rbp here. Above them is the frame that the code expects.
        saved = [word(stopped + 8 * place) for place in range(3)]
        return {"rip": saved[0], "rbx": saved[1], "rbp": saved[2], "rsp": stopped + 24}

    def awaited(self):
        """What it waits for: the type that implements `Wait`."""
        if self.state != "blocked":
            return ""
        vtable = word(self.at + self.table.field["wait"] + 8)
        try:
            # The first method of the type, behind the destructor, the size and the alignment.
            method = gdb.execute("info symbol %#x" % word(vtable + 24), to_string=True)
        except gdb.MemoryError:
            return ""
        text = method.split(" in section")[0].strip()
        text = text[1:].split(" as ")[0] if text.startswith("<") else text.rsplit("::", 1)[0]
        return text

    def suspended(self):
        return self.context() is not None


def shown(number):
    return "%d.%d" % (number & 0xFFFFFFFF, number >> 32)


class Suspended(Unwinder):
    """Shows gdb the frames of a suspended thread, behind the innermost frame of the selected kernel thread."""

    def __init__(self):
        super().__init__("underpass")
        self.goes_on, self.sp = None, None

    def show(self, registers):
        gdb.invalidate_cached_frames()
        self.goes_on, self.sp = None, None
        if registers:
            self.sp = int(gdb.newest_frame().read_register("rsp"))
            self.goes_on = registers
            gdb.invalidate_cached_frames()

    def __call__(self, pending):
        if not self.goes_on:
            return None
        sp = pending.read_register("rsp")
        if int(sp) != self.sp:
            return None
        unwound = pending.create_unwind_info(FrameId(sp, pending.read_register("rip")))
        for name, value in self.goes_on.items():
            unwound.add_saved_register(name, gdb.Value(value).cast(sp.type))
        return unwound


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


UNWINDER = Suspended()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


def find(text):
    for thread in Table().threads():
        if text in (thread.id(), str(thread.number & 0xFFFFFFFF), thread.name()):
            if not thread.suspended():
                raise gdb.GdbError("Thread %s is %s; see `info threads`." % (thread.id(), thread.state))
            return thread
    raise gdb.GdbError("There is no such thread; see `underpass threads`.")


def backtrace(thread):
    print("Thread %s '%s', %s:" % (thread.id(), thread.name(), thread.state))
    UNWINDER.show(thread.context())
    try:
        frame, number = gdb.newest_frame().older(), 0
        while frame is not None and frame.is_valid():
            place = frame.find_sal()
            where = " at %s:%d" % (place.symtab.filename, place.line) if place.symtab else ""
            print("#%-3d %s%s" % (number, frame.name() or "%#x" % frame.pc(), where))
            frame, number = frame.older(), number + 1
    finally:
        UNWINDER.show(None)


class Underpass(gdb.Command):
    """Underpass's user-level threads: `underpass threads`, `bt`, `enter`, `leave`."""

    def __init__(self):
        super().__init__("underpass", gdb.COMMAND_STACK, prefix=True)


class Threads(gdb.Command):
    """Lists every user-level thread, and the kernel threads that use the package: number, activation, state, name, what it waits for."""

    def __init__(self):
        super().__init__("underpass threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        threads = Table().threads()
        names = {thread.number: thread.name() for thread in threads}
        print("%-10s %-10s %-18s %-20s %s" % ("number", "activation", "state", "name", "waits for"))
        for thread in threads:
            awaited = thread.awaited()
            if thread.state == "blocked" and thread.waits_for:
                held = "%s '%s'" % (shown(thread.waits_for), names.get(thread.waits_for, ""))
                awaited = "%s, held by %s" % (awaited, held)
            row = (thread.id(), thread.activation(), thread.state, thread.name() or "-", awaited)
            print(("%-10s %-10s %-18s %-20s %s" % row).rstrip())


class Backtrace(gdb.Command):
    """Shows where a suspended thread, given by number or name, is; or `all`."""

    def __init__(self):
        super().__init__("underpass bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if argument.strip() == "all":
            for thread in Table().threads():
                if thread.suspended():
                    backtrace(thread)
        else:
            backtrace(find(argument.strip()))


class Enter(gdb.Command):
    """Has gdb's own commands show a suspended thread, given by number or name, behind frame 0, until `underpass leave`."""

    def __init__(self):
        super().__init__("underpass enter", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        UNWINDER.show(find(argument.strip()).context())
        gdb.execute("frame 1")


class Leave(gdb.Command):
    """Ends `underpass enter`."""

    def __init__(self):
        super().__init__("underpass leave", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        UNWINDER.show(None)
        gdb.execute("frame 0")


# SIGRTMIN + 7 ends time slices, and SIGRTMIN + 8 asks unresponsive activations for dumps.
gdb.execute("handle SIG41 SIG42 nostop noprint pass", to_string=True)
Underpass()
Threads()
Backtrace()
Enter()
Leave()
