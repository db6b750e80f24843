//! The node's end: answers one connection.

use std::time::Duration;

use contract::ExecSpec;
use tokio::io::{AsyncWriteExt, BufReader};

use super::ask::{Ask, Reply};
use super::frame::{self, Kind};
use super::{Reading, Secured, read_line, session, write_line};
use crate::nodes::{NodeError, NodeHand};

/// How long whoever has connected may take to say what they want.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers what is asked over a connection, until it has been answered or whoever asked has gone.
pub async fn answer(hand: &dyn NodeHand, connection: Secured) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let asked = tokio::time::timeout(ASK_TIMEOUT, read_line::<Ask>(&mut connection)).await;
    let ask = asked.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
    match serve(hand, ask, &mut connection).await {
        Ok(Begun::Said(reply)) => write_line(connection.get_mut(), &reply).await,
        Ok(Begun::Log(mut text)) => {
            write_line(connection.get_mut(), &Reply::begun([false; 4])).await?;
            while let Some(bytes) = next_piece(&mut text, &mut connection).await {
                frame::write(connection.get_mut(), Kind::Stdout, &bytes).await?;
            }
            frame::write(connection.get_mut(), Kind::Stdout, &[]).await?;
            connection.get_mut().shutdown().await
        }
        Ok(Begun::Page(bytes)) => {
            write_line(connection.get_mut(), &Reply::begun([false; 4])).await?;
            frame::write(connection.get_mut(), Kind::Stdout, &bytes).await?;
            frame::write(connection.get_mut(), Kind::Stdout, &[]).await?;
            connection.get_mut().shutdown().await
        }
        Ok(Begun::Session(begun)) => {
            write_line(connection.get_mut(), &Reply::begun(session::streams_of(&begun))).await?;
            session::carry(*begun, connection).await;
            Ok(())
        }
        Ok(Begun::Connection(mut port)) => {
            write_line(connection.get_mut(), &Reply::begun([false; 4])).await?;
            tokio::io::copy_bidirectional(&mut port, &mut connection).await.map(drop)
        }
        Err(error) => write_line(connection.get_mut(), &Reply::failed(&error)).await,
    }
}

/// What there is to carry.
enum Begun {
    Said(Reply),
    Log(crate::nodes::LogText),
    Page(bytes::Bytes),
    Session(Box<contract::Session>),
    Connection(Box<dyn contract::Connection>),
}

/// Begins; gives up when whoever asked goes meanwhile.
async fn serve(hand: &dyn NodeHand, ask: Ask, connection: &mut Reading) -> Result<Begun, NodeError> {
    tokio::select! {
        begun = begin(hand, &ask) => begun,
        () = gone(connection) => Err(NodeError::Internal("whoever asked has gone".to_owned())),
    }
}

async fn begin(hand: &dyn NodeHand, ask: &Ask) -> Result<Begun, NodeError> {
    if let Some((id, options)) = ask.log_options() {
        return hand.log(id, &options).await.map(Begun::Log);
    }
    match ask {
        Ask::Exec { place, command, tty, stdin, stdout, stderr } => {
            let (pod, container) = place.parts();
            let (tty, stdin, stdout, stderr) = (*tty, *stdin, *stdout, *stderr);
            let spec = ExecSpec { command: command.clone(), tty, stdin, stdout, stderr };
            hand.exec(&pod, container, &spec).await.map(|session| Begun::Session(Box::new(session)))
        }
        Ask::Attach { place, stdin } => {
            let (pod, container) = place.parts();
            hand.attach(&pod, container, *stdin).await.map(|session| Begun::Session(Box::new(session)))
        }
        Ask::Forward { place, port } => hand.forward(&place.parts().0, *port).await.map(Begun::Connection),
        Ask::Page { page } => hand.page(*page).await.map(Begun::Page),
        Ask::Usage => hand.usage().await.map(|usage| Begun::Said(Reply::used(&usage))),
        Ask::Log { .. } => Err(NodeError::BadRequest("no log is asked for".to_owned())),
    }
}

/// The next piece of a log; `None` at its end, or when whoever asked has gone: a log that is followed may be silent.
async fn next_piece(text: &mut crate::nodes::LogText, connection: &mut Reading) -> Option<bytes::Bytes> {
    tokio::select! {
        piece = text.recv() => piece,
        () = gone(connection) => None,
    }
}

/// Resolves when the other side has ended the connection. It has nothing more to say before that, except to a session
/// or port, for which this is not asked; what it says too early stays in the buffer.
async fn gone(connection: &mut Reading) {
    use tokio::io::AsyncBufReadExt;
    if !connection.buffer().is_empty() {
        return std::future::pending().await;
    }
    match connection.fill_buf().await {
        Ok(bytes) if !bytes.is_empty() => std::future::pending().await,
        _ => {}
    }
}
