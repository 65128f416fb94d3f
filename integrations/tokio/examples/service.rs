//! A service that answers requests over TCP, and its clients. Two mistakes delay requests: one task reads
//! its configuration with a blocking call, and one computes for too long without a yield.
//!
//!     piano record -- target/debug/examples/service [REQUESTS]
//!     piano report --polls

use std::io;
use std::time::Duration;

use piano_tokio::{CpuProfiling, CpuProfilingConfig, TracedRuntime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CLIENTS: u64 = 4;

/// Stands for a call that blocks: a file on a slow disk, a name lookup, a lock.
#[inline(never)]
fn read_configuration() {
    std::thread::sleep(Duration::from_millis(60));
}

#[inline(never)]
fn rebuild_index(words: u64) -> u64 {
    let (mut sum, mut word) = (1, 0);
    while word < words {
        sum = (sum * 6_364_136_223 + word) % 1_000_000_007;
        word += 1;
    }
    sum
}

#[inline(never)]
fn answer(request: u64) -> u64 {
    rebuild_index(request % 1000)
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    while let Ok(request) = stream.read_u64().await {
        stream.write_u64(answer(request)).await?;
    }
    Ok(())
}

async fn ask(address: std::net::SocketAddr, requests: u64) -> io::Result<u64> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    for request in 0..requests {
        stream.write_u64(request).await?;
        assert_eq!(stream.read_u64().await?, answer(request));
    }
    Ok(requests)
}

async fn run(requests: u64) -> io::Result<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    piano_tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            piano_tokio::spawn(serve(stream));
        }
    });
    let configuration = piano_tokio::spawn(async {
        for _ in 0..5 {
            read_configuration();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let index = piano_tokio::spawn(async {
        for _ in 0..3 {
            rebuild_index(10_000_000);
            tokio::task::yield_now().await;
        }
    });
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| piano_tokio::spawn(ask(address, requests / CLIENTS))).collect();
    let mut answered = 0;
    for client in clients {
        answered += client.await??;
    }
    configuration.await?;
    index.await?;
    Ok(answered)
}

fn main() -> io::Result<()> {
    let requests = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(400);
    let runtime = TracedRuntime::builder()
        .with_cpu_profiling(CpuProfilingConfig { frequency_hz: 99, ..Default::default() })
        .build(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all())?;
    if let CpuProfiling::Refused(error) = runtime.cpu_profiling() {
        eprintln!("no CPU samples: {error}");
    }
    println!("{} requests answered", runtime.block_on(run(requests))?);
    Ok(())
}
