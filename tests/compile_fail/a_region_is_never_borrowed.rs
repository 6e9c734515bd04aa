//! A reference to memory that a device writes could not be sound, so there is none.

fn bytes(region: &ugds::Region) -> &[u8] {
    region.as_ref()
}

fn main() {}
