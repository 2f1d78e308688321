#!/usr/bin/env bash
# Boots a guest under QEMU, without KVM, with an emulated IOMMU, QEMU's `edu` and an NVMe disk. There the example `guest`
# drives `edu` by UIO, reads from the disk by the kernel's driver, and then drives both by vfio-pci. The kernel is Debian's
# for clouds; it is downloaded once. Times in the guest are those of no hardware: only their ratios say something.
#
# usage: tests/device/guest.sh [DIRECTORY], where the kernel is kept; the default is target/guest
#   GUEST_PROFILE=release GUEST_READS=3000 tests/device/guest.sh: for figures of reads
set -Eeuo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
place=$(realpath -m "${1:-target/guest}")
# Far longer than a boot takes, of 3 s.
limit=${GUEST_LIMIT:-300}
mkdir -p "$place"

for program in qemu-system-x86_64 busybox cpio depmod modprobe dpkg; do
    PATH=$PATH:/sbin:/usr/sbin command -v "$program" >/dev/null || {
        printf 'there is no %s; .ci/run installs it\n' "$program" >&2
        exit 2
    }
done
export PATH=$PATH:/sbin:/usr/sbin

# Later kernels panic under this QEMU with two CPUs, so it is this series.
if [[ ! -d $place/kernel ]]; then
    package=$(apt-cache search --names-only '^linux-image-6\.1\.0-[0-9]*-cloud-amd64$' | sort -V | tail -1 | cut -d' ' -f1)
    rm -rf "$place/kernel.new"
    mkdir "$place/kernel.new"
    (cd "$place" && apt-get download -qq "$package" && dpkg -x "$package"_*.deb kernel.new && rm "$package"_*.deb)
    # No package has this list; it is made where the package is installed.
    depmod -b "$place/kernel.new" "$(ls "$place/kernel.new/lib/modules")"
    mv "$place/kernel.new" "$place/kernel"
fi
version=$(ls "$place/kernel/lib/modules")

profile=${GUEST_PROFILE:-dev}
cargo build --quiet --profile "$profile" -p underpass-test-device --example guest
program=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/examples/guest

root=$place/root
rm -rf "$root"
mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,modules}
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$program" "$root/bin/guest"
# The program's libraries, where it looks for them.
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
number=100
for module in nvme uio_pci_generic vfio_iommu_type1 vfio-pci; do
    modprobe -d "$place/kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod //p'
done | awk '!seen[$1]++ { print $1 }' | while read -r file; do
    number=$((number + 1))
    case $file in
    *.xz) xz -dc "$file" >"$root/modules/$number-$(basename "${file%.xz}")" ;;
    *) cp "$file" "$root/modules/$number-$(basename "$file")" ;;
    esac
done

cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod "$module"; done
for device in /sys/bus/pci/devices/*; do
    [ "$(cat $device/vendor):$(cat $device/device)" = 0x1234:0x11e8 ] && edu=${device##*/}
    [ "$(cat $device/class)" = 0x010802 ] && nvme=${device##*/}
done
# Has the kernel's driver $1 hold the device $2.
hold() {
    [ -e /sys/bus/pci/devices/$2/driver ] && echo $2 >/sys/bus/pci/devices/$2/driver/unbind
    echo $1 >/sys/bus/pci/devices/$2/driver_override
    echo $2 >/sys/bus/pci/drivers_probe
}
# What is done with each driver of the kernel. GUEST_READS comes from the kernel's command line.
drive() {
    hold uio_pci_generic $edu
    guest uio /dev/uio0 || return
    until [ -b /dev/nvme0n1 ]; do sleep 0.1; done
    guest kernel-reads /dev/nvme0n1 || return
    hold vfio-pci $edu
    hold vfio-pci $nvme
    guest vfio $edu $nvme
}
ulimit -l unlimited
export UNDERPASS_DIR=/run/underpass RUST_BACKTRACE=1 GUEST_READS
drive
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$place/initramfs.gz"

# At its start the kernel counts ticks of the timer and panics if an emulated processor that waits for a real one has
# missed them; `no_timer_check` is to leave that out.
truncate -s 64M "$place/disk.img"
timeout -k 5 "$limit" qemu-system-x86_64 -machine q35,kernel-irqchip=split -accel tcg,thread=multi -smp 2 -m 768 \
    -nodefaults -display none -serial stdio -no-reboot -kernel "$place/kernel/boot/vmlinuz-$version" \
    -initrd "$place/initramfs.gz" -append "console=ttyS0 quiet panic=-1 no_timer_check intel_iommu=on nvme.poll_queues=1 GUEST_READS=${GUEST_READS:-200}" \
    -device intel-iommu,intremap=on,caching-mode=on -device edu,dma_mask=0xffffffffff \
    -drive if=none,id=disk,file="$place/disk.img",format=raw -device nvme,drive=disk,serial=guest \
    </dev/null | tee "$place/guest.log"
grep -q GUEST-OK "$place/guest.log"
