//! The documents of an image: which layers it has, and its configuration.

use crate::source::Source;
use crate::{Error, Result};
use belljar_base::hex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// The names of this machine's architecture in images.
const ARCHITECTURE: &str = "amd64";

/// An image in a source.
pub struct Image {
    /// The digest of its configuration: the image's id, in hexadecimal digits.
    pub id: String,
    /// Its layers from the lowest, by name in the source, with the digest of each one's archive before compression.
    pub layers: Vec<(String, String)>,
    /// Its settings for programs.
    pub settings: Settings,
}

/// Settings of an image for the programs in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Environment variables, in the image's order.
    pub environment: Vec<(String, String)>,
    /// The program to run and its first arguments (`ENTRYPOINT`).
    pub entrypoint: Vec<String>,
    /// Arguments behind those if there are no others (`CMD`); the first is the program where there is no `entrypoint`.
    pub command: Vec<String>,
    /// The user that programs run as, a name or number; `None`: root.
    pub user: Option<String>,
    /// The directory that programs start in, if the image has one.
    pub working_directory: Option<PathBuf>,
}

/// An item of `manifest.json` in an archive of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerItem {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// `index.json` of an OCI layout, an index of indexes, or a manifest: what is there says which.
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
    annotations: Option<std::collections::BTreeMap<String, String>>,
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

/// The image in a source.
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

/// The names of configuration and layers in an archive of `docker save`.
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

/// The names of configuration and layers in an OCI layout.
fn oci(source: &mut Source) -> Result<(String, Vec<String>)> {
    let mut name = "index.json".to_owned();
    // An index may name indexes, one for each platform.
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

/// The image for this machine among several.
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

/// The name of the part with this digest.
fn blob(digest: &str) -> Result<String> {
    Ok(format!("blobs/sha256/{}", hex_of(digest)?))
}

/// The hexadecimal digits of a digest.
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
    // Docker's `user:group`: the group is that of the user here.
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
