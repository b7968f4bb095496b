//! Documents of an image: its list of layers and its configuration.

use crate::source::Source;
use crate::{Error, Result};
use belljar_base::{Map, hex};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Name of this machine's architecture in images.
const ARCHITECTURE: &str = "amd64";

/// Image in a source.
pub struct Image {
    /// Image id: the digest of the configuration in hexadecimal.
    pub id: String,
    /// Layers from the lowest: name in the source, digest of the uncompressed archive.
    pub layers: Vec<(String, String)>,
    /// Settings for programs.
    pub settings: Settings,
}

/// Settings of an image for its programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Environment variables in the image's order.
    pub environment: Vec<(String, String)>,
    /// Program and its first arguments (`ENTRYPOINT`).
    pub entrypoint: Vec<String>,
    /// Default arguments after `entrypoint` (`CMD`); without `entrypoint` the first one is the program.
    pub command: Vec<String>,
    /// User name or number of programs; `None` for root.
    pub user: Option<String>,
    /// Initial working directory, if specified.
    pub working_directory: Option<PathBuf>,
}

/// Element of `manifest.json` in an archive of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerItem {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Document of an OCI layout: `index.json`, a nested index, or a manifest, distinguished by its fields.
#[derive(Deserialize)]
struct OciDocument {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<Platform>,
    #[serde(default)]
    annotations: Option<Map<String, String>>,
}

#[derive(Clone, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

#[derive(Deserialize)]
struct Configuration {
    architecture: String,
    os: String,
    #[serde(default)]
    config: Option<RunSettings>,
    rootfs: RootFs,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RunSettings {
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    working_dir: Option<String>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

/// Reads the description of the image in a source.
pub fn read(source: &mut Source) -> Result<Image> {
    let (config, layers) = if source.has("manifest.json") {
        docker(source)?
    } else if source.has("index.json") {
        oci(source)?
    } else {
        return Err(Error::new("it is no image: it has neither 'manifest.json' nor 'index.json'")
            .help("make one by 'docker save -o FILE IMAGE', or unpack it and name the directory"));
    };
    let bytes = source.document(&config)?;
    let configuration: Configuration = parse(&bytes, &config)?;
    if (&*configuration.os, &*configuration.architecture) != ("linux", ARCHITECTURE) {
        let (os, architecture) = (&configuration.os, &configuration.architecture);
        return Err(Error::new(format!(
            "the image is for {os}/{architecture}, and this machine runs linux/{ARCHITECTURE}"
        ))
        .help(format!("get the image for it: docker pull --platform linux/{ARCHITECTURE} IMAGE")));
    }
    let digests = configuration.rootfs.diff_ids;
    if digests.len() != layers.len() {
        return Err(Error::new(format!(
            "it has {} layers, and its configuration {}",
            layers.len(),
            digests.len()
        ))
        .help("save it again"));
    }
    let digests = digests.iter().map(|digest| hex_of(digest)).collect::<Result<Vec<_>>>()?;
    Ok(Image {
        id: hex(&Sha256::digest(&bytes)),
        layers: layers.into_iter().zip(digests).collect(),
        settings: settings(configuration.config.unwrap_or_default()),
    })
}

/// Names of the configuration and the layers in an archive of `docker save`.
fn docker(source: &mut Source) -> Result<(String, Vec<String>)> {
    let mut items: Vec<DockerItem> = parse(&source.document("manifest.json")?, "manifest.json")?;
    match items.len() {
        1 => {}
        0 => return Err(Error::new("there is no image in it").help("save one: docker save -o FILE IMAGE")),
        _ => {
            return Err(several(
                items.iter().flat_map(|item| item.repo_tags.iter().flatten().take(1).cloned()),
            ));
        }
    }
    let item = items.remove(0);
    Ok((item.config, item.layers))
}

/// Names of the configuration and the layers in an OCI layout.
fn oci(source: &mut Source) -> Result<(String, Vec<String>)> {
    let mut name = "index.json".to_owned();
    // An index may contain further indexes, one per platform.
    for _ in 0..4 {
        let document: OciDocument = parse(&source.document(&name)?, &name)?;
        if let Some(config) = document.config {
            let layers = document.layers.iter().map(|layer| blob(&layer.digest));
            return Ok((blob(&config.digest)?, layers.collect::<Result<_>>()?));
        }
        name = blob(&chosen(document.manifests)?.digest)?;
    }
    Err(Error::new("its indexes name each other"))
}

/// Selects the manifest for this machine.
fn chosen(manifests: Vec<Descriptor>) -> Result<Descriptor> {
    let fits = |each: &Descriptor| {
        each.platform.as_ref().is_none_or(|own| own.os == "linux" && own.architecture == ARCHITECTURE)
    };
    let (mut fitting, others): (Vec<_>, Vec<_>) = manifests.into_iter().partition(fits);
    match fitting.len() {
        1 => Ok(fitting.remove(0)),
        0 => {
            let others: Vec<_> = others.iter().filter_map(|each| each.platform.as_ref()).collect();
            let list: Vec<_> = others.iter().map(|own| format!("{}/{}", own.os, own.architecture)).collect();
            let found = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            Err(Error::new(format!("it has no image for linux/{ARCHITECTURE}, but {found}"))
                .help(format!("get it: docker pull --platform linux/{ARCHITECTURE} IMAGE")))
        }
        _ => Err(several(fitting.into_iter().map(|each| {
            let own = each.annotations.unwrap_or_default();
            own.get("org.opencontainers.image.ref.name").cloned().unwrap_or(each.digest)
        }))),
    }
}

fn several(names: impl Iterator<Item = String>) -> Error {
    let names: Vec<_> = names.take(4).collect();
    Error::new(format!("there are several images in it: {}", names.join(", ")))
        .help("save one alone: docker save -o FILE IMAGE")
}

/// Name of the part with a digest.
fn blob(digest: &str) -> Result<String> {
    Ok(format!("blobs/sha256/{}", hex_of(digest)?))
}

/// Hexadecimal digits of a digest.
fn hex_of(digest: &str) -> Result<String> {
    match digest.strip_prefix("sha256:") {
        Some(hex) if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Ok(hex.to_ascii_lowercase())
        }
        _ => Err(Error::new(format!("'{digest}' in it is no digest by sha256"))),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8], name: &str) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::new(format!("its part '{name}' is not what images have: {error}")))
}

fn settings(found: RunSettings) -> Settings {
    let variable =
        |text: String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    // The group in Docker's `user:group` is ignored; the user's own group is used.
    let user = found.user.unwrap_or_default();
    let user = user.split(':').next().filter(|user| !user.is_empty() && !matches!(*user, "root" | "0"));
    let directory = found.working_dir.filter(|path| path.starts_with('/') && path != "/");
    Settings {
        environment: found.env.unwrap_or_default().into_iter().filter_map(variable).collect(),
        entrypoint: found.entrypoint.unwrap_or_default(),
        command: found.cmd.unwrap_or_default(),
        user: user.map(str::to_owned),
        working_directory: directory.map(PathBuf::from),
    }
}
