//! Builds a Read and an Identify and prints their 64 bytes.

use nvme_proto::zerocopy::IntoBytes;
use nvme_proto::{BusAddr, Cid, Count16, DataPointer, Lba, Nsid, PageSize, Sqe, admin, nvm, prp};

fn main() {
    // 64 KiB at LBA 2048 of a namespace with blocks of 512 bytes: 128 blocks, 0's based on the wire.
    let blocks = Count16::new(128).expect("128 is between 1 and 65536");
    let data = BusAddr(0x1_0000_0200);
    let list = BusAddr(0x2_0000_0000);
    // The buffer begins 512 bytes into a page, so 64 KiB touch 17 pages: PRP1 and a list of 16 entries.
    let shape = prp::shape(PageSize::MIN, data.0, 128 * 512);
    let read = nvm::ReadWrite::read(Nsid(1), Lba(2048), blocks)
        .to_sqe()
        .with_cid(Cid(0x0042))
        .with_data_pointer(shape.data_pointer(data, list));
    print("Read", &read);
    println!("PRP2 is {shape:?}\n");

    let identify = admin::Identify::controller()
        .to_sqe()
        .with_cid(Cid(0x0001))
        .with_data_pointer(DataPointer::prp(BusAddr(0x3_0000_0000), BusAddr(0)));
    print("Identify Controller", &identify);
}

fn print(name: &str, sqe: &Sqe) {
    println!("{name}:");
    for (row, bytes) in sqe.as_bytes().chunks(16).enumerate() {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("  CDW{:<2}  {}", row * 4, hex.join(" "));
    }
}
