/*
 * A model of donation: two clients, of which CALLERS call, one server and CPUS processors. The
 * steps are named as in the proof (src/README.md).
 *
 * Checked: every call is answered, and the system comes to rest (no invalid end state). No
 * processor is lost or given twice (assertions). `tests/model` checks the model as it is, and then
 * with each step taken out in turn by -DBREAK=number. Each of those must be found wrong.
 *
 * Left out: memory ordering (the loom models have it), other sleepers on a client's word, and
 * spurious wake-ups, which only help.
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef BREAK
#define BREAK 0
#endif
/* Steps that may be left out, and what is wrong then. */
#define NO_LOOK_AT_L3 2         /* the listener sleeps though its word has changed */
#define NO_RING_AT_D5 3         /* a donor that finds no listener wakes nobody */
#define NO_LOOK_AT_S3 4         /* natives announce their sleep, and don't look again */
#define NO_RECALL 5             /* L6 does not wake the donor */
#define NO_WAKE_AT_D5 6         /* D5 clears the bit, and does not wake the listener */
#define NO_INVITE 7             /* N9: a loan ends with calls left, and no native is woken */
#define NO_MEMORY 8             /* a listener that stood by forgets that it set the bit */

#define CLIENTS 2
/* CALLERS of them make CALLS calls each: as many as a search covers in a minute. */
#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef CALLS
#define CALLS 1
#endif

/* The words of a line, as far as the protocol reads them. `changes` counts wake-ups above the bits. */
#define LISTENING 1
#define STANDING_BY 2
typedef CacheLine {
    bool server_parked;         /* the natives sleep */
    bool client_parked;
    byte changes;
    byte takes[CPUS];           /* donation words: 0, LISTENING or STANDING_BY */
    bool giving[CPUS];          /* whether the donor gives way (GIVING_WAY) */
    byte requests;              /* posted, not taken */
    byte replies;
    byte posted;
    byte answered;
};
CacheLine line[CLIENTS];

/* The kernel's futexes: true while the owner sleeps; a wake-up sets it to false. */
bool client_asleep[CLIENTS];
bool native_asleep;
bool listener_asleep[CPUS];

/* How many loans the listener of a CPU has. */
byte loan[CPUS];
byte done;

#define cpu_of(c) ((c) % CPUS)

/* Rings the doorbell of the server's attention word of a line. */
inline ring(c) {
    if
    :: line[c].server_parked -> line[c].server_parked = false; native_asleep = false
    :: else
    fi
}

/* Wakes the client that sleeps on its attention word. */
inline wake_client(c) {
    if
    :: client_asleep[c] -> client_asleep[c] = false
    :: else
    fi
}

/* Takes the replies that have come. */
inline take_replies(c) {
    line[c].answered = line[c].answered + line[c].replies;
    line[c].replies = 0
}

/* A client: posts its calls together or one by one, and donates its processor for owed calls. */
proctype Client(byte c) {
    byte value, was;
    bool owed;
    do
    :: line[c].answered == CALLS -> break
    :: line[c].answered < CALLS ->
        /* D1, D2 */
        do
        :: line[c].posted < CALLS ->
            atomic { line[c].requests++; line[c].posted++ };
            if
            :: line[c].server_parked -> owed = true
            :: else
            fi
        :: line[c].posted > line[c].answered + line[c].replies || line[c].posted == CALLS -> break
        od;
        atomic { take_replies(c) };
        if
        :: line[c].answered == CALLS -> break
        :: line[c].answered == line[c].posted -> goto again
        :: else
        fi;
        /* H1, unless the client sleeps instead */
        if
        :: atomic { owed && line[c].takes[cpu_of(c)] ->
                was = line[c].takes[cpu_of(c)];
                line[c].takes[cpu_of(c)] = 0;
                line[c].giving[cpu_of(c)] = true;
                owed = false
            };
            if
            :: was == LISTENING -> listener_asleep[cpu_of(c)] = false
            :: else
            fi;
            /* H2, at any time */
            atomic { take_replies(c); was = 0 };
            goto again
        :: true
        fi;
        /* D3: S1 */
        atomic { line[c].client_parked = true; value = line[c].changes };
        /* S3, on the short path of N6 too: L6 covers what the client may miss there. */
        if
        :: line[c].replies > 0 -> goto look
        :: else
        fi;
        if
        :: owed ->
            /* D4, D5 */
            owed = false;
            if
            :: atomic { line[c].takes[cpu_of(c)] ->
                    was = line[c].takes[cpu_of(c)];
                    line[c].takes[cpu_of(c)] = 0;
                    line[c].giving[cpu_of(c)] = false
                };
                if
#if BREAK != NO_WAKE_AT_D5
                :: was == LISTENING -> listener_asleep[cpu_of(c)] = false
#endif
                :: else
                fi;
                was = 0
            :: atomic { else ->
#if BREAK != NO_RING_AT_D5
                ring(c)
#else
                skip
#endif
                }
            fi
        :: else
        fi;
        /* D6 */
        if
        :: atomic { line[c].client_parked && line[c].changes == value -> client_asleep[c] = true };
            !client_asleep[c]
        :: atomic { else }
        fi;
look:   atomic { line[c].client_parked = false; value = 0 };
again:  skip
    od;
    done++
}

/* Whether a donation word differs from what L1 left. */
#if BREAK != NO_LOOK_AT_L3
#define CHANGED (came[0] || came[1] || line[0].takes[cpu] != LISTENING || line[1].takes[cpu] != LISTENING)
#else
#define CHANGED (came[0] || came[1])
#endif

/* The listener of a CPU. */
proctype Listener(byte cpu) {
    byte c;
    bool came[CLIENTS], said[CLIENTS];
    bool runs;                  /* the donor gives way */
    do
    :: true ->
        /* L1 */
        d_step {
            c = 0;
            do
            :: c < CLIENTS ->
                if
#if BREAK != NO_MEMORY
                :: said[c] && !line[c].takes[cpu] -> came[c] = true
#endif
                :: else -> line[c].takes[cpu] = LISTENING; said[c] = true
                fi;
                c++
            :: else -> break
            od;
            c = 0
        }
        /* L3 */
        atomic {
            if
            :: CHANGED -> skip
            :: else -> listener_asleep[cpu] = true
            fi
        };
end_listening:
        !listener_asleep[cpu];
        /* L4 */
        d_step {
            c = 0;
            do
            :: c < CLIENTS ->
                came[c] = said[c] && !line[c].takes[cpu];
                if
                :: came[c] -> said[c] = false; loan[cpu]++
                :: else
                fi;
                c++
            :: else -> break
            od;
            c = 0
        }
        /* L5, L6 */
        do
        :: c < CLIENTS && came[c] ->
            do
            :: atomic { line[c].requests > 0 -> line[c].requests--; line[c].replies++ }
            :: line[c].requests == 0 -> break
#if CPUS == 1
            /* The listener has held the loan too long, or a procedure blocks. */
            :: line[c].requests > 0 ->
#if BREAK != NO_INVITE
                native_asleep = false;
#endif
                break
#endif
            od;
            assert(loan[cpu] > 0);
            loan[cpu]--;
            came[c] = false;
            /* H3, and L1 for a listener that stays */
            atomic {
                runs = line[c].giving[cpu];
                line[c].giving[cpu] = false;
                if
                :: line[c].takes[cpu] = STANDING_BY; said[c] = true
                :: true
                fi
            };
            if
            :: runs && !line[c].client_parked
            :: else ->
#if BREAK == NO_RECALL
                skip
#else
                atomic {
                    if
                    :: line[c].client_parked -> line[c].client_parked = false
                    :: else -> line[c].changes = (line[c].changes + 1) % 4
                    fi
                };
                wake_client(c)
#endif
            fi;
            runs = false;
            c++
        :: c < CLIENTS && !came[c] -> c++
        :: c == CLIENTS -> c = 0; break
        od
    od
}

/* The natives: S1 to S4 on both lines; P1 to P3 for their replies. */
proctype Native() {
    byte c;
    bool some;
    do
    :: true ->
        /* Polls both lines. */
        d_step { some = false; c = 0 };
        do
        :: c < CLIENTS ->
            if
            :: atomic { line[c].requests > 0 -> line[c].requests--; some = true };
                line[c].replies++;
                atomic {
                    if
                    :: line[c].client_parked -> line[c].client_parked = false; wake_client(c)
                    :: else
                    fi
                }
            :: atomic { else }
            fi;
            c++
        :: else -> c = 0; break
        od;
        if
        :: some
        :: else ->
            /* S1 */
            atomic { native_asleep = true; line[0].server_parked = true; line[1].server_parked = true };
#if BREAK != NO_LOOK_AT_S3
            /* S3 */
            if
            :: line[0].requests > 0 || line[1].requests > 0 -> native_asleep = false
            :: else
            fi;
#endif
            /* S4: the poster that rings clears it. */
end_asleep: !native_asleep;
            atomic { line[0].server_parked = false; line[1].server_parked = false }
        fi
    od
}

init {
    byte i;
    atomic {
        run Native();
        for (i : 0 .. CPUS - 1) { run Listener(i) }
        for (i : 0 .. CALLERS - 1) { run Client(i) }
    }
    /* Only an end state in which all callers have their replies is valid. */
    done == CALLERS
}
