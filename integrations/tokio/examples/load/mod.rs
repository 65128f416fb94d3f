//! What the programs of `bench/run tokio` let their runtimes do: those here and those in bench/programs/dial9, which are the same but for
//! who watches.

#![allow(dead_code)] // no program needs all of it

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub const BYTES: usize = 64;
pub const TASKS: usize = 10;
pub const WORKERS: usize = 2;

pub async fn yields(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// SPAWN spawns a task that yields that many times.
pub async fn yield_all(polls: usize, spawn: impl Fn(usize) -> JoinHandle<()>) {
    let tasks: Vec<_> = (0..TASKS).map(|_| spawn(polls / TASKS)).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn cpu_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written to during the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Says the nanoseconds of a poll: CPU time of all threads, and time that passed.
pub fn time_polls(polls: usize, run: impl FnOnce()) {
    let (cpu, wall) = (cpu_time(), Instant::now());
    run();
    let each = |time: Duration| time.as_nanos() as f64 / polls as f64;
    println!("{:.2} {:.2}", each(cpu_time() - cpu), each(wall.elapsed()));
}

pub async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; BYTES];
    loop {
        stream.read_exact(&mut buffer).await?;
        stream.write_all(&buffer).await?;
    }
}

/// Says the port and the process id. SPAWN spawns a task that echoes.
pub async fn serve(spawn: impl Fn(TcpStream) + Send + 'static) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{} {}", listener.local_addr()?.port(), std::process::id());
    io::stdout().flush()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            spawn(stream);
        }
    });
    Ok(())
}

pub fn await_end_of_input() -> io::Result<()> {
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
