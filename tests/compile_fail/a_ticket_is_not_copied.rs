//! One command, one ticket.

use ugds_queue::Ticket;

fn copy(ticket: Ticket) -> (Ticket, Ticket) {
    (ticket.clone(), ticket)
}

fn main() {}
