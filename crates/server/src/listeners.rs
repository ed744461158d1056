//! The listeners of a server, and the connections of each: one, or one for each virtual node of a
//! server for tests, which can be closed and opened again.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use cassette_database::{NodeEvent, NodeSwitch};
use cassette_protocol::response::{Event, StatusChange, TopologyChange};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};

/// How long requests of a node that goes down may continue: the one that takes it down ends, too.
const DOWN_GRACE: Duration = Duration::from_millis(100);

/// The listeners, by node, and their connections.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub sockets: Sockets,
    pub connections: Connections,
}

/// The listening sockets; `None` of nodes that are down.
#[derive(Debug)]
pub(crate) struct Sockets(Vec<(SocketAddr, Option<TcpListener>)>);

/// The connections of each node, and the channel of their signal to end.
#[derive(Debug)]
pub(crate) struct Connections(Vec<(JoinSet<()>, watch::Sender<bool>)>);

impl Listeners {
    /// Returns the listeners of nodes.
    pub fn new(listeners: Vec<TcpListener>) -> io::Result<Self> {
        let connections = listeners.iter().map(|_| new_connections()).collect();
        let sockets = listeners.into_iter().map(|listener| Ok((listener.local_addr()?, Some(listener))));
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        Ok(Self { sockets: Sockets(sockets), connections: Connections(connections) })
    }

    /// Opens or closes the listener of a node.
    pub async fn execute(&mut self, command: Command) {
        let done = match (self.sockets.0.get_mut(command.node), self.connections.0.get_mut(command.node)) {
            (Some((address, listener)), Some(connections)) => {
                if command.opens {
                    match TcpListener::bind(*address).await {
                        Ok(bound) => {
                            *listener = Some(bound);
                            Ok(())
                        }
                        Err(error) => Err(format!("cannot listen on {address}: {error}")),
                    }
                } else {
                    *listener = None;
                    let (ended, stop) = std::mem::replace(connections, new_connections());
                    // An error only means that there is no connection.
                    let _ = stop.send(true);
                    tokio::spawn(end(ended));
                    Ok(())
                }
            }
            _ => Err("it has no listener".to_owned()),
        };
        // An error only means that no caller waits.
        let _ = command.done.send(done);
    }
}

fn new_connections() -> (JoinSet<()>, watch::Sender<bool>) {
    (JoinSet::new(), watch::channel(false).0)
}

/// Waits for the connections of a node that is down, and cuts them off.
async fn end(mut connections: JoinSet<()>) {
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DOWN_GRACE, ended).await;
    connections.shutdown().await;
}

impl Sockets {
    /// Returns the address of the first listener.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.first().map(|(address, _)| *address)
    }

    /// Accepts a connection, of any node.
    pub async fn accept(&self) -> (usize, io::Result<(TcpStream, SocketAddr)>) {
        poll_fn(|cx| {
            for (node, (_, listener)) in self.0.iter().enumerate() {
                if let Some(listener) = listener
                    && let Poll::Ready(accepted) = listener.poll_accept(cx)
                {
                    return Poll::Ready((node, accepted));
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl Connections {
    /// Returns the connections of a node, and the receiver of their signal to end.
    pub fn of(&mut self, node: usize) -> Option<(&mut JoinSet<()>, watch::Receiver<bool>)> {
        self.0.get_mut(node).map(|(connections, stop)| (connections, stop.subscribe()))
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(connections, _)| connections.len()).sum()
    }

    /// Waits for the end of a connection, forever if there is none.
    pub async fn ended(&mut self) -> Result<(), JoinError> {
        poll_fn(|cx| {
            for (connections, _) in &mut self.0 {
                if let Poll::Ready(Some(ended)) = connections.poll_join_next(cx) {
                    return Poll::Ready(ended);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Signals all connections to end.
    pub fn stop(&self) {
        for (_, stop) in &self.0 {
            // An error only means that there is no connection.
            let _ = stop.send(true);
        }
    }

    /// Ends all connections at once.
    pub async fn shutdown(&mut self) {
        for (connections, _) in &mut self.0 {
            connections.shutdown().await;
        }
    }
}

/// A request to open or close the listener of a node.
#[derive(Debug)]
pub(crate) struct Command {
    node: usize,
    opens: bool,
    done: oneshot::Sender<Result<(), String>>,
}

/// Switches the virtual nodes of a server.
#[derive(Debug, Clone)]
pub struct ServerNodes {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) events: broadcast::Sender<Arc<Event>>,
    pub(crate) port: u16,
}

impl ServerNodes {
    fn switch(&self, node: usize, opens: bool) -> Result<(), String> {
        const STOPPING: &str = "the server stops";
        let (done, is_done) = oneshot::channel();
        self.commands.send(Command { node, opens, done }).map_err(|_| STOPPING.to_owned())?;
        is_done.blocking_recv().unwrap_or_else(|_| Err(STOPPING.to_owned()))
    }
}

impl NodeSwitch for ServerNodes {
    fn open(&self, node: usize) -> Result<(), String> {
        self.switch(node, true)
    }

    fn close(&self, node: usize) -> Result<(), String> {
        self.switch(node, false)
    }

    fn announce(&self, address: IpAddr, event: NodeEvent) {
        let address = SocketAddr::new(address, self.port);
        let status = |status| Event::StatusChange { status, address };
        let topology = |change| Event::TopologyChange { change, address };
        let event = match event {
            NodeEvent::Up => status(StatusChange::Up),
            NodeEvent::Down => status(StatusChange::Down),
            NodeEvent::NewNode => topology(TopologyChange::NewNode),
            NodeEvent::RemovedNode => topology(TopologyChange::RemovedNode),
        };
        // An error only means that no connection has subscribed.
        let _ = self.events.send(Arc::new(event));
    }
}
