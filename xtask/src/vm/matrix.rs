//! The table of what the VM tests boot and run. A new test is a new [`Step`]; a new set of device options, a new
//! [`Case`].

use super::initramfs::{Account, Driver};
use super::program::Program;

/// One boot with its steps, which run in this order in the same guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What the device is bound to at first. A step may change it: `nvme-bind nvme`.
    pub(crate) driver: Driver,
    /// Options of QEMU's `nvme` device.
    pub(crate) device_options: &'static str,
    /// Namespaces 1 and up: size, then options of `nvme-ns`.
    pub(crate) disks: &'static [&'static str],
    /// More words for the kernel's command line.
    pub(crate) append: &'static str,
    pub(crate) log: Log,
    pub(crate) steps: &'static [Step],
}

/// What the kernel's log must be like afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Nothing that a bare boot does not print.
    Clean,
    /// A fault of the device's DMA: the proof that the judge of the log finds one.
    DmaFault,
}

/// One command in the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) binary: Binary,
    pub(crate) args: &'static [&'static str],
    pub(crate) expect: Expect,
    pub(crate) account: Account,
    pub(crate) timeout_s: u64,
}

/// What a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    /// Something that is in the guest anyway: of busybox or of `tests/vm/bin`.
    Guest(&'static str),
    /// Something of the workspace. It is built, and added with its libraries.
    Workspace(Program),
}

/// What makes a step succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Status 0.
    Success,
    /// Status 0, and stdout contains this.
    Prints(&'static str),
    /// Another status, and stderr contains this.
    Fails(&'static str),
}

impl Case {
    /// A boot with one namespace of 64 MiB and QEMU's defaults.
    const fn new(name: &'static str, driver: Driver, steps: &'static [Step]) -> Self {
        Self { name, driver, device_options: "", disks: &["64M"], append: "", log: Log::Clean, steps }
    }
}

impl Step {
    /// A shell script, run as root, that succeeds with status 0 within 20 s.
    const fn shell(name: &'static str, script: &'static str) -> Self {
        Self::of(name, Binary::Guest(script), &[])
    }

    /// A program of the workspace, with the same defaults.
    const fn program(name: &'static str, program: Program, args: &'static [&'static str]) -> Self {
        Self::of(name, Binary::Workspace(program), args)
    }

    const fn of(name: &'static str, binary: Binary, args: &'static [&'static str]) -> Self {
        Self { name, binary, args, expect: Expect::Success, account: Account::Root, timeout_s: 20 }
    }

    const fn expect(self, expect: Expect) -> Self {
        Self { expect, ..self }
    }

    /// Runs it as the user that owns the VFIO group, who may lock `memlock_kib`.
    const fn as_user(self, memlock_kib: u64) -> Self {
        Self { account: Account::User { memlock_kib: Some(memlock_kib) }, ..self }
    }

    const fn within(self, timeout_s: u64) -> Self {
        Self { timeout_s, ..self }
    }

    /// The command's words.
    pub(crate) fn words(&self) -> Vec<String> {
        let first: &[&str] = match &self.binary {
            Binary::Guest(script) => &["sh", "-c", script, self.name],
            Binary::Workspace(program) => &[program.name],
        };
        first.iter().chain(self.args).map(|word| (*word).to_owned()).collect()
    }
}

/// The program.
const UGDS: Program = Program { package: "ugds-cli", kind: "--bin", name: "ugds" };
/// Random reads and writes against byte arrays.
const ORACLE: Program = Program { package: "ugds-tests", kind: "--bin", name: "device-oracle" };
/// A device that a child inherits.
const FORK: Program = Program { package: "ugds-tests", kind: "--bin", name: "vfio-fork" };
/// A device whose registers go away.
const GONE: Program = Program { package: "ugds-tests", kind: "--bin", name: "vfio-gone" };
/// A device that interrupts.
const INTERRUPT: Program = Program { package: "ugds-tests", kind: "--bin", name: "vfio-interrupt" };
/// A device that is stopped at work.
const STOP: Program = Program { package: "ugds-tests", kind: "--bin", name: "vfio-stop" };
/// A device that is sent astray.
const STRAY: Program = Program { package: "ugds-tests", kind: "--bin", name: "vfio-stray" };
/// Where every guest has its device.
const DEVICE: &str = "vfio:0000:00:04.0";
const ADDRESS: &str = "0000:00:04.0";

/// All boots.
pub(crate) const CASES: &[Case] = &[
    Case::new(
        "bare",
        Driver::None,
        &[
            Step::shell("boot", "uname -r && nproc").expect(Expect::Prints("amd64")),
            Step::shell("the device is there", "pci | grep $NVME_BDF")
                .expect(Expect::Prints("class 0x010802")),
            Step::program("a program of the workspace", UGDS, &["--version"]).expect(Expect::Prints("ugds")),
        ],
    ),
    Case {
        device_options: "mdts=5,mqes=63,max_ioqpairs=4",
        disks: &["64M", "64M,logical_block_size=4096"],
        ..Case::new(
            "vfio",
            Driver::Vfio,
            &[
                Step::shell("bound", "pci | grep $NVME_BDF").expect(Expect::Prints("driver vfio-pci")),
                Step::shell("the user opens the group", OPEN_GROUP).as_user(65_536),
                Step::shell("the user's memlock limit", "ulimit -l")
                    .as_user(64)
                    .expect(Expect::Prints("64\n")),
                Step::shell("the user is not root", ": >/init")
                    .as_user(64)
                    .expect(Expect::Fails("ermission denied")),
                Step::program("identify, as the user", UGDS, &["identify", DEVICE])
                    .as_user(262_144)
                    .expect(Expect::Prints("UGDS-VM-1")),
                Step::program("too little memory to lock", UGDS, &["identify", DEVICE])
                    .as_user(64)
                    .expect(Expect::Fails("ulimit -l")),
                Step::shell("a file there and back", COPY_AND_COMPARE).within(60),
                Step::program("random operations", ORACLE, &[DEVICE, "400", "1"])
                    .as_user(262_144)
                    .within(120),
                Step::program("interrupts", INTERRUPT, &[ADDRESS]).expect(Expect::Prints("interrupts: 8")),
                Step::shell("what we wrote, the kernel reads", KERNEL_READS_OURS).within(60),
                Step::shell("what the kernel wrote, we read", WE_READ_KERNELS).within(60),
                Step::program("dropped by a child", FORK, &[ADDRESS]).expect(Expect::Prints("unmoved")),
                Step::program("stopped in every way", STOP, &[ADDRESS])
                    .expect(Expect::Prints("proof: BusMasterOff")),
                Step::program("the device goes away", GONE, &[ADDRESS]).expect(Expect::Prints("gone")),
            ],
        )
    },
    Case {
        device_options: "mdts=1,mqes=2,max_ioqpairs=1,dbcs=off",
        ..Case::new("vfio, least", Driver::Vfio, THE_JOB)
    },
    Case {
        device_options: "mdts=0,mqes=2047,max_ioqpairs=64,dbcs=on",
        disks: &["64M,logical_block_size=4096", "64M", "64M,nsid=77"],
        append: "hugepages=16",
        ..Case::new("vfio, most", Driver::Vfio, ON_HUGE_PAGES)
    },
    Case {
        append: "page_poison=1 slub_debug=FZPU hash_pointers=always",
        ..Case::new(
            "vfio, killed",
            Driver::Vfio,
            &[
                Step::shell("killed in the middle of I/O", KILL_IN_THE_MIDDLE).within(60),
                Step::program("the device comes back", UGDS, &["identify", DEVICE])
                    .expect(Expect::Prints("UGDS-VM-1")),
                Step::program("and works", ORACLE, &[DEVICE, "150", "3"]).within(120),
            ],
        )
    },
    Case {
        log: Log::DmaFault,
        ..Case::new(
            "astray",
            Driver::Vfio,
            &[Step::program("a read to nowhere", STRAY, &[ADDRESS]).expect(Expect::Prints("answered"))],
        )
    },
    Case {
        disks: &["64M", "64M,logical_block_size=4096"],
        ..Case::new(
            "kernel driver",
            Driver::KernelNvme,
            &[
                Step::shell("both block sizes", BLOCK_SIZES).expect(Expect::Prints("512\n4096")),
                Step::shell("blocks come back", WRITE_AND_COMPARE).within(60),
                Step::shell("to VFIO and back", REBIND_AND_COMPARE).within(60),
            ],
        )
    },
];

/// What every variety of device must do.
const THE_JOB: &[Step] = &[
    Step::program("identify", UGDS, &["identify", DEVICE]).expect(Expect::Prints("UGDS-VM-1")),
    Step::shell("a file there and back", COPY_AND_COMPARE).within(60),
    Step::program("random operations", ORACLE, &[DEVICE, "250", "2"]).within(120),
];

/// The same where the kernel has huge pages set aside.
const ON_HUGE_PAGES: &[Step] = &[
    THE_JOB[0],
    THE_JOB[1],
    THE_JOB[2],
    Step::program("rings on huge pages", INTERRUPT, &[ADDRESS]).expect(Expect::Prints("huge pages: yes")),
];

const OPEN_GROUP: &str = ": <>/dev/vfio/$(basename $(readlink /sys/bus/pci/devices/$NVME_BDF/iommu_group))";

const BLOCK_SIZES: &str = "for nsid in 1 2; do blockdev --getss $(nvme-block $nsid); done";

/// A file that is no whole number of blocks, to each namespace, at an offset that is not the start.
const COPY_AND_COMPARE: &str = "set -e; head -c 3000001 /dev/urandom >/tmp/file
    for ns in $(ugds identify vfio:$NVME_BDF | sed -n 's/^namespace //p'); do
        device=vfio:$NVME_BDF?ns=$ns
        ugds copy /tmp/file $device#65536 --verify --erase
        ugds copy $device#65536+3000001 /tmp/back
        cmp /tmp/file /tmp/back; rm /tmp/back
    done";

/// Five processes that end without a chance to clean up, while commands of theirs are outstanding.
const KILL_IN_THE_MIDDLE: &str = "set -e; for round in 1 2 3 4 5; do
        ugds bench vfio:$NVME_BDF --rw randrw --bs 64k --threads 2 --depth 2 --time 20 --erase >/dev/null 2>&1 & bench=$!
        sleep 2; kill -9 $bench
        if wait $bench; then echo 'it ended by itself' >&2; exit 1; fi
    done";

/// The image is padded, so that the last block is compared too.
const KERNEL_READS_OURS: &str = "set -e; head -c 2097152 /dev/urandom >/tmp/ours
    for ns in 1 2; do ugds copy /tmp/ours vfio:$NVME_BDF?ns=$ns#1048576 --erase; done
    nvme-bind nvme
    for ns in 1 2; do dd if=$(nvme-block $ns) of=/tmp/theirs bs=1048576 skip=1 count=2; cmp /tmp/ours /tmp/theirs; done
    nvme-bind vfio-pci";

const WE_READ_KERNELS: &str = "set -e; nvme-bind nvme; head -c 2097152 /dev/urandom >/tmp/theirs
    for ns in 1 2; do dd if=/tmp/theirs of=$(nvme-block $ns) bs=1048576 seek=3 conv=fsync; done
    nvme-bind vfio-pci
    for ns in 1 2; do
        ugds copy vfio:$NVME_BDF?ns=$ns#3145728+2097152 /tmp/ours; cmp /tmp/ours /tmp/theirs; rm /tmp/ours
    done";

/// Without a flush of the buffers the comparison would read the page cache.
const WRITE_AND_COMPARE: &str = "set -e; head -c 1048576 /dev/urandom >/tmp/pattern; block=$(nvme-block 2)
    dd if=/tmp/pattern of=$block bs=65536 conv=fsync; blockdev --flushbufs $block
    cmp -n 1048576 /tmp/pattern $block";

const REBIND_AND_COMPARE: &str = "set -e; nvme-bind vfio-pci; pci | grep 'driver vfio-pci'
    nvme-bind nvme; cmp -n 1048576 /tmp/pattern $(nvme-block 2)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for case in CASES {
            assert_eq!(CASES.iter().filter(|other| other.name == case.name).count(), 1, "{}", case.name);
            for step in case.steps {
                assert_eq!(
                    case.steps.iter().filter(|other| other.name == step.name).count(),
                    1,
                    "{}",
                    step.name
                );
            }
        }
    }
}
