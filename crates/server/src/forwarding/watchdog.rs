//! The timeouts of clients whose connections are passed on: during the handshake, which the bytes
//! in both directions show, and then `native_transport_idle_timeout`.

use std::time::Duration;

use bytes::BytesMut;
use cassette_protocol::request::Startup;
use cassette_protocol::{Compression, Decoder, Direction, Opcode, Request, Version};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ServerConfig;

/// The longest message of a handshake.
const MESSAGE_LENGTH_MAX: usize = 128 << 10;

/// Watches a connection.
pub(crate) struct Watchdog {
    handshake_timeout: Duration,
    idle_timeout: Option<Duration>,
    state: Mutex<State>,
}

struct State {
    last_activity: Instant,
    /// `None` when the client is let in.
    handshake: Option<Box<Handshake>>,
}

/// The decoders of both directions.
struct Handshake {
    requests: Side,
    responses: Side,
    /// The version and compression of STARTUP.
    agreed: Option<(Version, Option<Compression>)>,
}

struct Side {
    decoder: Decoder,
    input: BytesMut,
}

impl Watchdog {
    /// Watches a connection from its beginning.
    pub fn new(config: &ServerConfig) -> Self {
        let side =
            |direction| Side { decoder: Decoder::new(direction, MESSAGE_LENGTH_MAX), input: BytesMut::new() };
        let (requests, responses) = (side(Direction::Request), side(Direction::Response));
        let handshake = Handshake { requests, responses, agreed: None };
        Self {
            state: Mutex::new(State { handshake: Some(Box::new(handshake)), ..State::let_in() }),
            ..Self::let_in(config)
        }
    }

    /// Watches the connection of a client that is let in.
    pub fn let_in(config: &ServerConfig) -> Self {
        Self {
            handshake_timeout: config.handshake_timeout,
            idle_timeout: config.idle_timeout,
            state: Mutex::new(State::let_in()),
        }
    }

    /// Records what the client has sent.
    pub fn requests(&self, bytes: &[u8]) {
        self.record(|handshake| handshake.requests(bytes));
    }

    /// Records what the client has received.
    pub fn responses(&self, bytes: &[u8]) {
        self.record(|handshake| handshake.responses(bytes));
    }

    fn record(&self, advance: impl FnOnce(&mut Handshake) -> bool) {
        let mut state = self.state.lock();
        state.last_activity = Instant::now();
        if state.handshake.as_mut().is_some_and(|handshake| advance(handshake)) {
            state.handshake = None;
        }
    }

    /// Waits until a timeout, and returns its description.
    pub async fn barks(&self) -> &'static str {
        let begun = Instant::now();
        loop {
            let (last_activity, is_let_in) = {
                let state = self.state.lock();
                (state.last_activity, state.handshake.is_none())
            };
            let (until, what) = match (is_let_in, self.idle_timeout) {
                (false, _) => {
                    (begun + self.handshake_timeout, "the client exceeded the time until it was let in")
                }
                (true, Some(timeout)) => {
                    (last_activity + timeout, "the client exceeded the time to send another request")
                }
                (true, None) => return std::future::pending().await,
            };
            if until <= Instant::now() {
                return what;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl State {
    fn let_in() -> Self {
        Self { last_activity: Instant::now(), handshake: None }
    }
}

/// Each returns whether the handshake is over. It is, too, if its messages are unknown: the target
/// may know another version of the protocol, and closes the connection if it does not.
impl Handshake {
    fn requests(&mut self, bytes: &[u8]) -> bool {
        self.requests.input.extend_from_slice(bytes);
        loop {
            match self.requests.decoder.next(&mut self.requests.input) {
                Ok(Some(envelope)) if envelope.header.opcode == Opcode::Startup => {
                    let version = envelope.header.version;
                    let Ok(Request::Startup(startup)) =
                        Request::decode(&envelope).map(|decoded| decoded.request)
                    else {
                        return true;
                    };
                    self.agree(version, &startup);
                }
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }

    fn agree(&mut self, version: Version, startup: &Startup) {
        let compression = startup.compression(version).unwrap_or_default();
        self.agreed = Some((version, compression));
        if version < Version::V5 {
            // Cassandra compresses the response to STARTUP, too.
            self.responses.decoder.fix_version(version, compression);
        }
    }

    fn responses(&mut self, bytes: &[u8]) -> bool {
        self.responses.input.extend_from_slice(bytes);
        loop {
            match self.responses.decoder.next(&mut self.responses.input) {
                Ok(Some(envelope)) => match envelope.header.opcode {
                    Opcode::Ready | Opcode::AuthSuccess => return true,
                    Opcode::Authenticate => {
                        let Some((version, compression)) = self.agreed else { return true };
                        self.requests.decoder.fix_version(version, compression);
                        self.responses.decoder.fix_version(version, compression);
                    }
                    _ => {}
                },
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cassette_protocol::request::{AuthResponse, Options};
    use cassette_protocol::response::{AuthSuccess, Authenticate, Supported};
    use cassette_protocol::{Encoder, Prelude, Response};

    use super::*;

    struct Peer {
        encoder: Encoder,
        watchdog: Watchdog,
    }

    impl Peer {
        fn new(version: Version) -> Self {
            Self { encoder: Encoder::new(version), watchdog: Watchdog::new(&ServerConfig::default()) }
        }

        fn sealed(&mut self) -> Vec<u8> {
            self.encoder.seal();
            let bytes = self.encoder.bytes().to_vec();
            self.encoder.clear(0);
            bytes
        }

        /// Byte by byte: nothing depends on how messages are cut.
        fn requests(&mut self, request: &Request) -> bool {
            self.encoder.request(0, request, false);
            let bytes = self.sealed();
            bytes.chunks(1).for_each(|byte| self.watchdog.requests(byte));
            self.is_let_in()
        }

        fn responses(&mut self, response: &Response) -> bool {
            self.encoder.response(0, response, &Prelude::default());
            let bytes = self.sealed();
            bytes.chunks(1).for_each(|byte| self.watchdog.responses(byte));
            self.is_let_in()
        }

        fn is_let_in(&self) -> bool {
            self.watchdog.state.lock().handshake.is_none()
        }
    }

    #[test]
    fn clients_are_let_in_by_ready_or_after_their_login_in_each_version() {
        let supported = || Response::Supported(Supported::with_cql_version("3.4.7"));
        for version in [Version::V3, Version::V4, Version::V5] {
            for compression in [None, Some(Compression::Lz4)] {
                for has_login in [false, true] {
                    let mut peer = Peer::new(version);
                    let mut options = vec![(Startup::CQL_VERSION.to_owned(), "3.0.0".to_owned())];
                    options.extend(
                        compression.map(|name| (Startup::COMPRESSION.to_owned(), name.name().to_owned())),
                    );
                    assert!(!peer.requests(&Request::Options(Options)));
                    assert!(!peer.responses(&supported()));
                    assert!(!peer.requests(&Request::Startup(Startup { options })));
                    if !has_login {
                        assert!(peer.responses(&Response::Ready));
                        continue;
                    }
                    let authenticator = "PasswordAuthenticator".to_owned();
                    assert!(!peer.responses(&Response::Authenticate(Authenticate { authenticator })));
                    peer.encoder.fix_version(version, compression);
                    let token = Some(vec![1; 1000].into());
                    assert!(!peer.requests(&Request::AuthResponse(AuthResponse { token })));
                    let success = Response::AuthSuccess(AuthSuccess { token: None });
                    assert!(peer.responses(&success), "{version} {compression:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_complete_its_handshake_exceeds_its_time() {
        let config = ServerConfig { handshake_timeout: Duration::from_millis(20), ..ServerConfig::default() };
        let watchdog = Watchdog::new(&config);
        watchdog.requests(&[4, 0, 0]);
        assert!(watchdog.barks().await.ends_with("until it was let in"));
    }

    #[tokio::test]
    async fn a_client_that_is_idle_exceeds_its_time() {
        let idle_timeout = Some(Duration::from_millis(20));
        let config = ServerConfig { idle_timeout, ..ServerConfig::default() };
        let watchdog = Watchdog::let_in(&config);
        assert!(watchdog.barks().await.ends_with("to send another request"));
    }
}
