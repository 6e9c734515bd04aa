use super::*;

#[test]
fn the_defaults_are_those_of_the_table() {
    let uri = Uri::from(EmuUri::default());
    assert_eq!(Uri::parse("emu:").as_ref(), Ok(&uri));
    let spelled = "emu:?lba=4096&queues=8&mqes=1023&dstrd=0&mpsmin=0&mdts=5&sgl=0&dbbuf=0&vwc=0&namespaces=1\
                   &latency_us=0&bandwidth_mib=0";
    assert_eq!(Uri::parse(spelled), Ok(uri));
}

#[test]
fn every_option_is_read() {
    let text = "emu:a b.img?size=2G&lba=512&queues=3&mqes=7&dstrd=2&mpsmin=1&mdts=0&sgl=1&dbbuf=1&vwc=1&namespaces=4\
                &ooo=0&latency_us=80&bandwidth_mib=7000&ns=3";
    let expected = EmuUri {
        file: Some("a b.img".into()),
        size_bytes: Some(2 << 30),
        lba_bytes: 512,
        queues: 3,
        mqes_z: 7,
        dstrd: 2,
        mpsmin: 1,
        mdts: 0,
        sgl: true,
        dbbuf: true,
        vwc: true,
        namespaces: 4,
        out_of_order: Some(0),
        latency_us: 80,
        bandwidth_mib_s: 7000,
    };
    assert_eq!(Uri::parse(text), Ok(Uri { target: Target::Emu(expected), nsid: Some(Nsid(3)) }));
    assert_eq!(Uri::parse(text).unwrap().to_string(), text);
}

#[test]
fn the_other_schemes_are_read() {
    for (text, shortest) in [
        ("vfio:01:00.0", "vfio:0000:01:00.0"),
        ("vfio:0000:01:00.0?ns=7", "vfio:0000:01:00.0?ns=7"),
        ("ugds:/dev/ugds_drv0", "ugds:/dev/ugds_drv0"),
        ("ugds:/dev/a%3Fb?ns=1", "ugds:/dev/a%3Fb?ns=1"),
    ] {
        assert_eq!(Uri::parse(text).unwrap().to_string(), shortest);
    }
}

#[test]
fn one_device_has_many_namespaces() {
    let same = |a: &str, b: &str| Uri::parse(a).unwrap().target() == Uri::parse(b).unwrap().target();
    assert!(same("emu:a?namespaces=2&ns=1", "emu:a?namespaces=2&ns=2"));
    assert!(same("vfio:01:00.0", "vfio:0000:01:00.0?ns=2"));
    assert!(!same("emu:a", "emu:b"));
    assert!(!same("emu:a", "emu:a?sgl=1"));
}

/// Wrong text, and what the message must say.
const WRONG: &[(&str, &[&str])] = &[
    ("", &["``", "emu:"]),
    ("disk.img", &["`disk.img`", "emu:[FILE]", "vfio:", "ugds:"]),
    ("EMU:x", &["`EMU:x`", "did you mean `emu:x`?"]),
    ("emu", &["`emu`", "did you mean `emu:`?"]),
    ("vfio", &["did you mean `vfio:`?"]),
    ("/dev/nvme0n1", &["kernel block devices can't be opened", "vfio:BUS"]),
    ("nvme:0", &["`nvme:0`", "vfio:BUS"]),
    ("emu:a#0", &["`#`", "%23"]),
    ("emu:?", &["``", "NAME=VALUE"]),
    ("emu:?size", &["`size`", "NAME=VALUE"]),
    ("emu:?size=", &["`size=`", "NAME=VALUE"]),
    ("emu:?=1", &["`=1`", "NAME=VALUE"]),
    ("emu:?lba=512&", &["``", "NAME=VALUE"]),
    ("emu:?sise=1G", &["`sise`", "did you mean `size`?", "namespaces, ns, ooo"]),
    ("emu:?mdts=5&mdts=5", &["`mdts`", "more than once"]),
    ("emu:?size=0", &["size=0", "above 0"]),
    ("emu:?size=1000", &["size=1000", "4096"]),
    ("emu:?size=4K&lba=64K", &["size=4K", "65536"]),
    ("emu:?sz=1G", &["`sz`", "did you mean `size`?"]),
    ("emu:?size=1KB", &["size: `1KB`", "write 1K or 1KiB"]),
    ("emu:?size=4X", &["size: `4X`", "K, M, G, T"]),
    ("emu:?size=99999999999999999999", &["size: `99999999999999999999` is too large"]),
    ("emu:?size=2048T&namespaces=1024", &["size=2048T is too large", "at most 1024T"]),
    ("emu:?size=4G;lba=512", &["`size=4G;lba=512`", "separated by &", "`;`"]),
    ("emu:?size=4G,lba=512", &["separated by &", "`,`"]),
    ("emu:a?size=4G?lba=512", &["separated by &", "`?`"]),
    ("emu:?lba=520", &["lba=520", "512 to 65536"]),
    ("emu:?lba=128K", &["lba=128K", "512 to 65536"]),
    ("emu:?lba=8G", &["lba=8G", "512 to 65536"]),
    ("emu:?queues=0", &["queues=0", "1 to 1024"]),
    ("emu:?queues=1025", &["queues=1025 is too large", "1 to 1024"]),
    ("emu:?queues=+8", &["queues=+8", "1 to 1024"]),
    ("emu:?mqes=65536", &["mqes=65536 is too large", "0 to 65535"]),
    ("emu:?dstrd=9", &["dstrd=9", "0 to 8"]),
    ("emu:?mpsmin=-1", &["mpsmin=-1", "0 to 8"]),
    ("emu:?mdts=17", &["mdts=17", "0 to 16"]),
    ("emu:?sgl=yes", &["sgl=yes", "0 or 1"]),
    ("emu:?dbbuf=2", &["dbbuf=2", "0 or 1"]),
    ("emu:?vwc=true", &["vwc=true", "0 or 1"]),
    ("emu:?namespaces=0", &["namespaces=0", "1 to 1024"]),
    ("emu:?ns=0", &["ns=0", "from 1"]),
    ("emu:?ns=3", &["ns=3", "there is 1 namespace; add namespaces=3"]),
    ("emu:?namespaces=2&ns=3", &["there are 2 namespaces; add namespaces=3"]),
    ("emu:?ooo=x", &["ooo=x", "0 to 18446744073709551615"]),
    ("emu:?latency_us=60000001", &["latency_us=60000001", "60000000"]),
    ("emu:?bandwidth_mib=1.5", &["bandwidth_mib=1.5", "1048576"]),
    ("emu:a&b", &["`&`", "`a&b`", "%26"]),
    ("emu:50%", &["`%`", "%25"]),
    ("emu:a%00", &["`%00`"]),
    ("vfio:", &["``", "0000:01:00.0"]),
    ("vfio:01:00", &["`01:00`", "0000:01:00.0"]),
    ("vfio:01:00.0?ns=4294967295", &["ns=4294967295", "1 to 4294967294"]),
    ("vfio:01:00.0?size=1G", &["vfio:", "`size`", "accepted are ns"]),
    ("ugds:ugds_drv0", &["`ugds_drv0`", "/dev/ugds_drv0"]),
    ("ugds:/dev/ugds_drv0?n=1", &["`n`", "did you mean `ns`?"]),
];

#[test]
fn errors_name_the_value_and_what_is_accepted() {
    for (text, parts) in WRONG {
        let message = match Uri::parse(text) {
            Ok(uri) => panic!("{text} was read as {uri:?}"),
            Err(error) => error.to_string(),
        };
        for part in *parts {
            assert!(message.contains(part), "{text}: {message:?} lacks {part:?}");
        }
    }
}

#[test]
fn locations_are_read() {
    for (text, offset_bytes, len_bytes, shortest) in [
        ("emu:a", 0, None, "emu:a"),
        ("emu:a#0", 0, None, "emu:a"),
        ("emu:a?lba=512#4096", 4096, None, "emu:a?lba=512#4K"),
        ("emu:a#1M+1", 1 << 20, Some(1), "emu:a#1M+1"),
        ("vfio:01:00.0#0+4KiB", 0, Some(4096), "vfio:0000:01:00.0#0+4K"),
    ] {
        let location: Location = text.parse().unwrap();
        assert_eq!((location.offset_bytes, location.len_bytes), (offset_bytes, len_bytes), "{text}");
        assert_eq!(location.to_string(), shortest);
        assert_eq!(shortest.parse(), Ok(location));
    }
}

#[test]
fn wrong_places_are_named() {
    for (text, part) in [
        ("emu:a#", "`#`"),
        ("emu:a#x", "`#x`"),
        ("emu:a#1+", "`#1+`"),
        ("emu:a#1+0", "LENGTH of 1 or more"),
        ("emu:a#1+2+3", "`#1+2+3`"),
        ("emu:a#1#2", "`#1#2`"),
        ("emu:a#-1", "OFFSET+LENGTH"),
        ("emu:a#18446744073709551615+1", "within 64 bits"),
    ] {
        let message = text.parse::<Location>().unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}

/// For any URI, `parse` undoes `Display`.
#[test]
fn display_round_trips() {
    let cases = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..cases {
        let uri = random.uri();
        let text = uri.to_string();
        assert_eq!(Uri::parse(&text).as_ref(), Ok(&uri), "{text}");
        let location = Location {
            uri,
            offset_bytes: random.next() >> 1,
            len_bytes: random.maybe(|r| 1 + (r.next() >> 2)),
        };
        let text = location.to_string();
        assert_eq!(text.parse().as_ref(), Ok(&location), "{text}");
    }
}

/// A mangled URI is read or refused, and never a panic. What is read round-trips.
#[test]
fn no_text_panics() {
    let cases = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let mut random = Random(42);
    for _ in 0..cases {
        let mut text: Vec<char> = random.uri().to_string().chars().collect();
        for _ in 0..random.below(4) {
            let at = random.below(text.len() as u64) as usize;
            let character = *random.pick(&['%', '?', '#', '&', '=', '0', '9', 'K', ':', '.', '+', 'ü', '\0']);
            if random.below(2) == 0 { text[at] = character } else { text.insert(at, character) }
        }
        let text: String = text.into_iter().collect();
        if let Ok(uri) = Uri::parse(&text) {
            assert_eq!(Uri::parse(&uri.to_string()), Ok(uri), "{text}");
        }
    }
}

/// Random names of devices, from xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.below(2) == 0 { None } else { Some(make(self)) }
    }

    fn path(&mut self) -> PathBuf {
        use std::os::unix::ffi::OsStringExt;
        let len = 1 + self.below(12);
        let bytes = (0..len).map(|_| 1 + self.below(255) as u8).collect();
        std::ffi::OsString::from_vec(bytes).into()
    }

    fn uri(&mut self) -> Uri {
        let target = match self.below(4) {
            0 => Target::Vfio(PciAddress {
                domain: self.next() as u16,
                bus: self.next() as u8,
                device: self.below(32) as u8,
                function: self.below(8) as u8,
            }),
            1 => Target::Kmod(PathBuf::from("/").join(self.path())),
            _ => Target::Emu(self.emu()),
        };
        let last = target.last_nsid();
        Uri { target, nsid: self.maybe(|r| Nsid(1 + r.below(last.0.into()) as u32)) }
    }

    fn emu(&mut self) -> EmuUri {
        let namespaces = 1 + self.below(1024) as u32;
        let lba_bytes = 512 << self.below(8);
        EmuUri {
            file: self.maybe(Self::path),
            size_bytes: self.maybe(|r| (1 + r.below(1 << 30)) * u64::from(lba_bytes)),
            lba_bytes,
            queues: 1 + self.below(1024) as u16,
            mqes_z: self.next() as u16,
            dstrd: self.below(9) as u8,
            mpsmin: self.below(9) as u8,
            mdts: self.below(17) as u8,
            sgl: self.below(2) == 1,
            dbbuf: self.below(2) == 1,
            vwc: self.below(2) == 1,
            namespaces,
            out_of_order: self.maybe(Self::next),
            latency_us: self.below(60_000_001) as u32,
            bandwidth_mib_s: self.below((1 << 20) + 1) as u32,
        }
    }
}
