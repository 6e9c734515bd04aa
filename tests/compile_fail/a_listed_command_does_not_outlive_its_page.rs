//! A command with a list of its own is lent by the value that has the page, so the page can't go first.

use ugds_hal::Command;
use ugds_mem::{ListPage, ListedIo};

fn keep<'a>(listed: ListedIo<'a>) -> (Command<'a>, ListPage) {
    let command = listed.command();
    (command, listed.into_page())
}

fn main() {
    let _ = keep;
}
