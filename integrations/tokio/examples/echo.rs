//! An echo server and its clients, as separate processes.
//!
//!     echo serve plain|traced          prints its port and process id; ends at the end of its input
//!     echo ask PORT CLIENTS REQUESTS   prints how many requests per second were answered

mod load;

use std::io;
use std::time::Instant;

use piano_tokio::TracedRuntime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

/// One worker, so that it and the clients have one CPU each.
fn server(told: bool) -> io::Result<()> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    let (plain, traced);
    if told {
        traced = TracedRuntime::builder().build(&mut builder)?;
        traced.block_on(load::serve(|stream| drop(piano_tokio::spawn(load::echo(stream)))))?;
    } else {
        plain = builder.build()?;
        plain.block_on(load::serve(|stream| drop(tokio::spawn(load::echo(stream)))))?;
    }
    load::await_end_of_input()
}

async fn client(port: u16, requests: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let mut buffer = [7; load::BYTES];
    for _ in 0..requests {
        stream.write_all(&buffer).await?;
        stream.read_exact(&mut buffer).await?;
    }
    Ok(())
}

async fn ask(port: u16, clients: usize, requests: usize) -> io::Result<f64> {
    let begin = Instant::now();
    let each = requests.div_ceil(clients);
    let all: Vec<_> = (0..clients).map(|_| tokio::spawn(client(port, each))).collect();
    for one in all {
        one.await??;
    }
    Ok((each * clients) as f64 / begin.elapsed().as_secs_f64())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| words.get(index).and_then(|text| text.parse::<usize>().ok());
    match (words.first().map(String::as_str), number(1), number(2), number(3)) {
        (Some("serve"), ..) => server(words.get(1).is_some_and(|way| way == "traced")),
        (Some("ask"), Some(port), Some(clients), Some(requests)) => {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            println!("{:.1}", runtime.block_on(ask(port as u16, clients.max(1), requests))?);
            Ok(())
        }
        _ => Err(io::Error::other("usage: echo serve plain|traced | ask PORT CLIENTS REQUESTS")),
    }
}
