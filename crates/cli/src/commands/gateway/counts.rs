//! What the gateway counts, for Prometheus: `/metrics`, by HTTP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use claret_gateway::GatewayHandle;

/// Requests that are answered at once, each by a thread; a further one is told so.
const AT_ONCE_MAX: usize = 16;

/// How long a request may take.
const TIME: Duration = Duration::from_secs(1);

/// The longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Answers each request, on threads of its own: one that says nothing holds up no other.
pub(super) fn serve(listener: TcpListener, handle: GatewayHandle) {
    let busy = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let place = Place(Arc::clone(&busy));
            if busy.fetch_add(1, Ordering::Relaxed) >= AT_ONCE_MAX {
                refuse(stream);
                continue;
            }
            let handle = handle.clone();
            // Where the system has no more threads, it ends here.
            let work = move || {
                let _place = place;
                let _ = answer(stream, &handle);
            };
            drop(std::thread::Builder::new().spawn(work));
        }
    });
}

/// One of those that are answered at once.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn refuse(mut stream: TcpStream) {
    let _ = stream.set_nonblocking(true);
    let _ = stream
        .write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

fn answer(mut stream: TcpStream, handle: &GatewayHandle) -> std::io::Result<()> {
    let until = Instant::now() + TIME;
    stream.set_read_timeout(Some(TIME))?;
    stream.set_write_timeout(Some(TIME))?;
    let mut request = Vec::new();
    let mut room = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        if Instant::now() > until {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        match stream.read(&mut room)? {
            0 => break,
            read => request.extend_from_slice(&room[..read]),
        }
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", handle.prometheus()),
        false => ("404 Not Found", "the counts are at /metrics\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
