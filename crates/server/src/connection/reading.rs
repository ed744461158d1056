//! Receiving input.

use std::{future::poll_fn, io, pin::pin};

use bytes::{BufMut, BytesMut};
use cassette_tls::Socket;
use tokio::io::AsyncReadExt;

use super::{INPUT_LENGTH, INPUT_ROOM_MIN};

/// Reads up to `room` bytes into `input`; 0 at the end of the stream. While nothing has arrived,
/// an empty input has no memory.
pub(super) async fn read(stream: &mut Socket, input: &mut BytesMut, room: usize) -> io::Result<usize> {
    poll_fn(|cx| {
        if input.capacity() - input.len() < INPUT_ROOM_MIN.min(room) {
            input.reserve(room.min(INPUT_LENGTH));
        }
        let read = pin!(stream.read_buf(&mut (&mut *input).limit(room))).poll(cx);
        if read.is_pending() && input.is_empty() {
            // The allocator gives the same memory to the next reader on this thread.
            *input = BytesMut::new();
        }
        read
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn an_input_without_bytes_has_no_memory_while_a_read_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut socket = Socket::Plain(listener.accept().await.unwrap().0);
        let mut input = BytesMut::new();
        for sent in ["first", "second"] {
            {
                let mut waiting = pin!(read(&mut socket, &mut input, INPUT_LENGTH));
                poll_fn(|cx| {
                    assert!(waiting.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            assert_eq!(input.capacity(), 0);
            client.write_all(sent.as_bytes()).await.unwrap();
            assert_eq!(read(&mut socket, &mut input, INPUT_LENGTH).await.unwrap(), sent.len());
            assert_eq!(input, sent);
            // A part of a message stays.
            {
                let mut waiting = pin!(read(&mut socket, &mut input, INPUT_LENGTH));
                poll_fn(|cx| {
                    assert!(waiting.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            assert_eq!(input, sent);
            input.clear();
        }
        drop(client);
        assert_eq!(read(&mut socket, &mut input, INPUT_LENGTH).await.unwrap(), 0);
    }
}
