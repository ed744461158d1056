//! A server that does nothing: the most that sockets and the protocol allow on a machine.
//!
//! It passes requests on to a real server, and remembers the result of the first execution of each
//! prepared statement on a connection. It answers all later executions with a copy of that result,
//! so an operation costs it the frame, the header and the copy. Protocol v5 without compression and
//! TLS.
//!
//! `cargo run --release -p cassette-lab --example null_server -- --listen 127.0.0.1:9300 --upstream
//! 127.0.0.1:9042`; `benches/null_server.sh` compares `cassette serve` with it.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;

use bytes::{Bytes, BytesMut};
use cassette_protocol::frame::{FrameFormat, PAYLOAD_LENGTH_MAX};
use cassette_protocol::{Direction, Header, Opcode};
use clap::Parser;

/// Length of one read.
const READ_LENGTH: usize = 256 << 10;

/// Answers executions of prepared statements with the result of the first one.
#[derive(Parser)]
struct Arguments {
    /// Where to listen
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9300")]
    listen: String,
    /// The server that answers everything else
    #[arg(long, value_name = "HOST:PORT")]
    upstream: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn serve(arguments: &Arguments) -> io::Result<()> {
    let listener = TcpListener::bind(&arguments.listen)?;
    println!("listening on {}", listener.local_addr()?);
    for client in listener.incoming() {
        let (client, upstream) = (client?, TcpStream::connect(&arguments.upstream)?);
        client.set_nodelay(true)?;
        upstream.set_nodelay(true)?;
        thread::spawn(move || {
            let mut relay =
                Relay::new(Peer::new(client, Direction::Request), Peer::new(upstream, Direction::Response));
            match relay.run() {
                Err(error) if error.kind() != ErrorKind::UnexpectedEof => eprintln!("a connection: {error}"),
                _ => {}
            }
        });
    }
    Ok(())
}

/// One connection of a client, and the one to the real server that belongs to it.
struct Relay {
    client: Peer,
    upstream: Peer,
    /// The bodies of results by the ids of prepared statements.
    results: HashMap<Bytes, Bytes>,
}

impl Relay {
    fn new(client: Peer, upstream: Peer) -> Self {
        Self { client, upstream, results: HashMap::new() }
    }

    /// Answers requests until the client closes the connection, which is an error of kind
    /// `UnexpectedEof`.
    fn run(&mut self) -> io::Result<()> {
        loop {
            while let Some((header, body)) = self.client.next_envelope()? {
                self.answer(header, body)?;
            }
            self.client.send()?;
            self.client.receive()?;
        }
    }

    fn answer(&mut self, request: Header, body: Bytes) -> io::Result<()> {
        let statement = if request.opcode == Opcode::Execute { Some(short_bytes(&body)?) } else { None };
        let known = statement.as_ref().and_then(|id| self.results.get(id));
        if let Some(result) = known {
            let header = Header { opcode: Opcode::Result, length: result.len() as u32, ..request };
            return self.client.push(&header, result);
        }
        self.upstream.push(&request, &body)?;
        self.upstream.send()?;
        let (response, body) = loop {
            match self.upstream.next_envelope()? {
                Some(envelope) => break envelope,
                None => self.upstream.receive()?,
            }
        };
        self.client.push(&response, &body)?;
        if let Some(id) = statement.filter(|_| response.opcode == Opcode::Result) {
            self.results.insert(id, body);
        }
        // All that follows the answer to STARTUP travels in frames.
        if request.opcode == Opcode::Startup && response.opcode != Opcode::Error {
            self.client.send()?;
            self.client.is_framed = true;
            self.upstream.is_framed = true;
        }
        Ok(())
    }
}

/// A socket with the bytes that arrived, and those to send.
struct Peer {
    socket: TcpStream,
    direction: Direction,
    is_framed: bool,
    scratch: Box<[u8]>,
    input: BytesMut,
    /// The content of frames; unused before STARTUP.
    content: BytesMut,
    output: Vec<u8>,
    framed: Vec<u8>,
}

impl Peer {
    /// `direction` is that of the messages that the peer sends.
    fn new(socket: TcpStream, direction: Direction) -> Self {
        Self {
            socket,
            direction,
            is_framed: false,
            scratch: vec![0; READ_LENGTH].into(),
            input: BytesMut::new(),
            content: BytesMut::new(),
            output: Vec::new(),
            framed: Vec::new(),
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let length = self.socket.read(&mut self.scratch)?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.input.extend_from_slice(&self.scratch[..length]);
        Ok(())
    }

    /// Returns the next complete message.
    fn next_envelope(&mut self) -> io::Result<Option<(Header, Bytes)>> {
        if !self.is_framed {
            return take_envelope(&mut self.input, self.direction);
        }
        loop {
            if let Some(envelope) = take_envelope(&mut self.content, self.direction)? {
                return Ok(Some(envelope));
            }
            match FrameFormat::Uncompressed.decode(&mut self.input).map_err(io::Error::other)? {
                // Without a copy, unless an envelope continues.
                Some(frame) if self.content.is_empty() => self.content = frame.payload.into(),
                Some(frame) => self.content.extend_from_slice(&frame.payload),
                None => return Ok(None),
            }
        }
    }

    /// Adds a message to those that [`send`](Self::send) sends.
    fn push(&mut self, header: &Header, body: &[u8]) -> io::Result<()> {
        if self.output.len() + Header::LENGTH + body.len() > PAYLOAD_LENGTH_MAX {
            self.send()?;
        }
        self.output.extend_from_slice(&header.encode());
        self.output.extend_from_slice(body);
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        if self.is_framed {
            let self_contained = self.output.len() <= PAYLOAD_LENGTH_MAX;
            for payload in self.output.chunks(PAYLOAD_LENGTH_MAX) {
                FrameFormat::Uncompressed.encode(self_contained, payload, &mut self.framed);
            }
            self.socket.write_all(&self.framed)?;
            self.framed.clear();
        } else {
            self.socket.write_all(&self.output)?;
        }
        self.output.clear();
        Ok(())
    }
}

/// Removes a complete message from the start of `input`.
fn take_envelope(input: &mut BytesMut, direction: Direction) -> io::Result<Option<(Header, Bytes)>> {
    let rejected = |rejected: cassette_protocol::RejectedHeader| io::Error::other(rejected.error);
    let Some(header) = Header::decode(input, direction).map_err(rejected)? else { return Ok(None) };
    let length = Header::LENGTH + header.length as usize;
    if input.len() < length {
        return Ok(None);
    }
    let envelope = input.split_to(length).freeze();
    Ok(Some((header, envelope.slice(Header::LENGTH..))))
}

/// Returns the `[short bytes]` at the start of the body of an EXECUTE: the statement's id.
fn short_bytes(body: &Bytes) -> io::Result<Bytes> {
    let short = || io::Error::new(ErrorKind::InvalidData, "an EXECUTE without the id of a statement");
    let length = u16::from_be_bytes(*body.first_chunk().ok_or_else(short)?) as usize;
    if body.len() < 2 + length {
        return Err(short());
    }
    Ok(body.slice(2..2 + length))
}
