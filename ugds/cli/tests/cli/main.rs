//! The program as people meet it: words in, text, files and an exit status out.

mod bench;
mod copy;
mod demo;
mod place;
mod probes;
mod program;
mod readme;
mod stat;
mod trace;
