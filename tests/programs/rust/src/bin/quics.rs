//! QUIC by quinn, over UDP with its segmentation offload: `quics serve` gives back what it gets on each stream of port
//! 4433; `quics ask HOST` sends 1 MB on each of four streams at once and says whether the same came back.

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::net::ToSocketAddrs;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The server's certificate is its own and of now: whoever asks it takes it as it is.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

async fn serve() -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["server".into()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder().with_no_client_auth();
    let tls = tls.with_single_cert(vec![made.cert.der().clone()], key.into())?;
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint = Endpoint::server(config, "0.0.0.0:4433".parse()?)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                tokio::spawn(async move {
                    let all = receive.read_to_end(2_000_000).await?;
                    send.write_all(&all).await?;
                    send.finish()?;
                    Ok::<_, Failure>(())
                });
            }
            Ok::<_, Failure>(())
        });
    }
    Ok(())
}

async fn ask(host: &str) -> Result<(), Failure> {
    let tls =
        rustls::ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(Trusting));
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls.with_no_client_auth())?));
    let mut endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    endpoint.set_default_client_config(config);
    let at = (host, 4433).to_socket_addrs()?.next().ok_or("no address")?;
    let connection = endpoint.connect(at, "server")?.await?;
    let mut asked = Vec::new();
    for n in 0..4u8 {
        let (mut send, mut receive) = connection.open_bi().await?;
        asked.push(tokio::spawn(async move {
            let sent = vec![n; 1_000_000];
            send.write_all(&sent).await?;
            send.finish()?;
            Ok::<_, Failure>(receive.read_to_end(2_000_000).await? == sent)
        }));
    }
    for task in asked {
        println!("{}", if task.await?? { "the same" } else { "something else" });
    }
    connection.close(0u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "a provider is there already")?;
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("serve"), None) => serve().await,
        (Some("ask"), Some(host)) => ask(&host).await,
        _ => Err("quics serve | quics ask HOST".into()),
    }
}
