//! Bytes passed on between a client and the target.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::watchdog::Watchdog;
use crate::ServerConfig;

/// How long responses are still passed on after the last request, or when the server stops.
const LINGER: Duration = Duration::from_secs(1);
/// How long the target may not receive.
const STALL_MAX: Duration = Duration::from_secs(30);
const BUFFER_LENGTH: usize = 64 << 10;

/// Passes bytes on in both directions, after the client has sent `first`, until one side ends, the
/// client exceeds a timeout, or the server stops.
pub(crate) async fn pass_on(
    client: impl AsyncRead + AsyncWrite + Send + Unpin,
    upstream: impl AsyncRead + AsyncWrite + Send + Unpin,
    first: Vec<u8>,
    config: &ServerConfig,
    stopped: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    let (mut client_in, mut client_out) = tokio::io::split(client);
    let (mut upstream_in, mut upstream_out) = tokio::io::split(upstream);
    let watchdog = Watchdog::new(config);
    let requests = async {
        watchdog.requests(&first);
        send(&mut upstream_out, &first).await?;
        drop(first);
        let mut buffer = vec![0; BUFFER_LENGTH];
        loop {
            let length = client_in.read(&mut buffer).await?;
            if length == 0 {
                return upstream_out.shutdown().await;
            }
            watchdog.requests(&buffer[..length]);
            send(&mut upstream_out, &buffer[..length]).await?;
        }
    };
    let responses = responses(&mut upstream_in, &mut client_out, &watchdog);
    join(requests, responses, &watchdog, stopped).await
}

/// Sends bytes to the target.
pub(crate) async fn send(upstream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let sent = async {
        upstream.write_all(bytes).await?;
        upstream.flush().await
    };
    tokio::time::timeout(STALL_MAX, sent).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Passes responses on until the target ends.
pub(crate) async fn responses(
    upstream: &mut (impl AsyncRead + Unpin),
    client: &mut (impl AsyncWrite + Unpin),
    watchdog: &Watchdog,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_LENGTH];
    loop {
        let length = upstream.read(&mut buffer).await?;
        if length == 0 {
            return client.shutdown().await;
        }
        client.write_all(&buffer[..length]).await?;
        client.flush().await?;
        watchdog.responses(&buffer[..length]);
    }
}

/// Runs both directions of a connection to their ends.
pub(crate) async fn join(
    requests: impl Future<Output = io::Result<()>>,
    responses: impl Future<Output = io::Result<()>>,
    watchdog: &Watchdog,
    stopped: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    tokio::pin!(responses);
    tokio::select! {
        // The target has ended the connection: no request can be answered any more.
        ended = &mut responses => return ended,
        ended = requests => ended?,
        what = watchdog.barks() => return Err(io::Error::new(io::ErrorKind::TimedOut, what)),
        // An error means that the server was dropped.
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    match tokio::time::timeout(LINGER, responses).await {
        Ok(ended) => ended,
        Err(_) => Ok(()),
    }
}
