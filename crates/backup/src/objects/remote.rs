//! Objects in a bucket.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{
    ClientOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig, UpdateVersion,
    WriteMultipart,
};
use tokio::runtime::{Handle, Runtime};

use super::tls::{self, CA_BUNDLE, TlsConnector};
use super::{Entry, Objects, SharedObjects, Version, WHOLE_LENGTH_MAX};
use crate::error::{Error, Result};

/// The length of the parts of a large object, bytes. S3 accepts 10,000 parts.
const PART: usize = 16 << 20;
/// Parts that are uploaded at once: the memory of an upload is bounded by them.
const PARTS_AT_ONCE: usize = 4;
/// The maximum duration of one request.
const REQUEST_MAX: Duration = Duration::from_secs(120);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How often and how long a failed request is repeated.
const RETRIES_MAX: usize = 6;
const RETRY_MAX: Duration = Duration::from_secs(90);

/// The objects below a prefix of a bucket.
pub(crate) struct RemoteObjects {
    store: Arc<dyn ObjectStore>,
    /// Present until drop.
    runtime: Option<Runtime>,
    /// `s3://bucket/prefix`, without credentials.
    url: String,
    prefix: Path,
}

impl fmt::Debug for RemoteObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteObjects").field(&self.url).finish()
    }
}

impl RemoteObjects {
    /// Opens `s3://bucket/prefix`, with the credentials, the region and the endpoint of the
    /// environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL` and others) or of the
    /// instance. The certificates of servers are verified with the authorities of the system, or
    /// those in the file `AWS_CA_BUNDLE`. No request is made.
    ///
    /// # Errors
    /// Invalid, if the address or the environment is.
    pub fn open(url: &str) -> Result<Self> {
        let authorities = std::env::var(CA_BUNDLE).ok().filter(|path| !path.is_empty());
        Self::open_with(url, AmazonS3Builder::from_env(), authorities.as_deref(), allows_http())
    }

    /// [`open`](Self::open) with settings that are not those of the environment.
    pub(super) fn open_with(
        url: &str,
        builder: AmazonS3Builder,
        authorities: Option<&str>,
        allows_http: bool,
    ) -> Result<Self> {
        let invalid = |detail: String| Error::invalid(format!("{url}: {detail}"));
        let (bucket, prefix) = parse(url).ok_or_else(|| {
            invalid(
                "invalid address: expected s3://BUCKET or s3://BUCKET/PREFIX, without credentials".to_owned(),
            )
        })?;
        // Without an effect if the process has a default already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = ClientOptions::new().with_timeout(REQUEST_MAX).with_connect_timeout(CONNECT_MAX);
        let client = tls::with_authorities(client, authorities).map_err(invalid)?;
        let retry =
            RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_MAX, ..RetryConfig::default() };
        let store = builder
            .with_bucket_name(bucket)
            .with_client_options(client.with_allow_http(allows_http))
            .with_http_connector(TlsConnector)
            .with_retry(retry)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        Self::with_store(Arc::new(store), url, prefix)
    }

    pub fn with_store(store: Arc<dyn ObjectStore>, url: &str, prefix: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("backup-objects")
            .enable_all()
            .build()
            .map_err(|error| Error::invalid(format!("{url}: cannot start a thread: {error}")))?;
        let prefix =
            Path::parse(prefix).map_err(|error| Error::invalid(format!("{url}: invalid prefix: {error}")))?;
        Ok(Self { store, runtime: Some(runtime), url: url.trim_end_matches('/').to_owned(), prefix })
    }

    fn path(&self, name: &str) -> Path {
        if name.is_empty() {
            return self.prefix.clone();
        }
        Path::from_iter(self.prefix.parts().chain(Path::from(name).parts()))
    }

    /// Runs a future to its end. The caller's thread may belong to another runtime, which such a
    /// wait would be an error in.
    fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        let runtime = self.runtime.as_ref().expect("it is taken on drop only");
        if Handle::try_current().is_err() {
            return runtime.block_on(future);
        }
        let waited = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join());
        waited.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn failed<'a>(&self, name: &'a str, action: &'a str) -> impl Fn(object_store::Error) -> Error + 'a {
        let path = self.describe(name);
        move |error| Error::Remote { path: path.clone(), action: action.to_owned(), detail: explain(&error) }
    }
}

/// Does not wait for requests in progress.
impl Drop for RemoteObjects {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the text of an error, without what a server adds to it: the response to a request with
/// an invalid signature repeats the signed headers, which contain the token of a session.
fn explain(error: &object_store::Error) -> String {
    if let Some(failure) = tls::failure_in(error) {
        return failure.to_string();
    }
    let text = short(&error.to_string());
    match error {
        object_store::Error::Unauthenticated { .. } | object_store::Error::PermissionDenied { .. } => {
            format!("{text}; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of the instance")
        }
        _ => format!("{text}; check the address, AWS_ENDPOINT_URL, AWS_REGION and the network"),
    }
}

/// Replaces an XML document in a text by its code and message, and cuts off what is long.
fn short(text: &str) -> String {
    const LENGTH_MAX: usize = 500;
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    let Some((before, _)) = text.split_once("<?xml").or_else(|| text.split_once("<Error>")) else {
        return text.chars().take(LENGTH_MAX).collect();
    };
    let parts =
        [before.trim_end(), element("Code").unwrap_or_default(), element("Message").unwrap_or_default()];
    parts.join(" ").trim_end().chars().take(LENGTH_MAX).collect()
}

/// Servers beside AWS may have no TLS, which the environment has to allow.
fn allows_http() -> bool {
    std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value.eq_ignore_ascii_case("true"))
}

fn parse(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("s3://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_bucket = !bucket.is_empty()
        && bucket.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c));
    (is_bucket && !prefix.contains(['?', '#', '@'])).then_some((bucket, prefix.trim_matches('/')))
}

impl Objects for RemoteObjects {
    fn list(&self, prefix: &str) -> Result<Vec<Entry>> {
        use futures_util::TryStreamExt;
        let path = self.path(prefix);
        let found: Vec<object_store::ObjectMeta> =
            self.wait(self.store.list(Some(&path)).try_collect()).map_err(self.failed(prefix, "list"))?;
        let mut entries = Vec::with_capacity(found.len());
        for meta in found {
            let Some(parts) = meta.location.prefix_match(&self.prefix) else { continue };
            let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            entries.push(Entry { name: parts.join("/"), bytes: meta.size });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.read_version(name)?.map(|(content, _)| content))
    }

    fn stream(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let failed = self.failed(name, "read");
        let path = self.path(name);
        let length = match self.wait(self.store.head(&path)) {
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            found => found.map_err(&failed)?.size,
        };
        // In ranges: each is repeated alone after a failure.
        let mut start = 0;
        while start < length {
            let end = length.min(start + PART as u64);
            let part = self.wait(self.store.get_range(&path, start..end)).map_err(&failed)?;
            if part.len() as u64 != end - start {
                let detail = format!("expected {} bytes at {start}, found {}", end - start, part.len());
                return Err(Error::damaged(&self.describe(name), detail));
            }
            each(&part)?;
            start = end;
        }
        Ok(true)
    }

    fn put_parts(&self, name: &str, next: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let failed = self.failed(name, "write");
        let path = self.path(name);
        let mut first = Vec::new();
        let mut is_more = fill(&mut first, next)?;
        if !is_more {
            return self.wait(self.store.put(&path, first.into())).map(drop).map_err(&failed);
        }
        let upload = self.wait(self.store.put_multipart(&path)).map_err(&failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        let mut part = first;
        loop {
            let ready = self.wait(async {
                upload.wait_for_capacity(PARTS_AT_ONCE).await?;
                upload.put(std::mem::take(&mut part).into());
                Ok::<(), object_store::Error>(())
            });
            let filled = ready.map_err(&failed).and_then(|()| {
                if !is_more {
                    return Ok(false);
                }
                is_more = fill(&mut part, next)?;
                Ok(true)
            });
            match filled {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    // Otherwise the store keeps the parts, invisibly.
                    let _ = self.wait(upload.abort());
                    return Err(error);
                }
            }
        }
        self.wait(upload.finish()).map(drop).map_err(&failed)
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.wait(self.store.delete(&self.path(name))) {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            removed => removed.map_err(self.failed(name, "remove")),
        }
    }

    fn file(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn describe(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}/{name}", self.url))
    }
}

impl SharedObjects for RemoteObjects {
    fn read_version(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>> {
        let failed = self.failed(name, "read");
        let found = match self.wait(self.store.get(&self.path(name))) {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(&failed)?,
        };
        if found.meta.size > WHOLE_LENGTH_MAX {
            let detail = format!("expected at most {WHOLE_LENGTH_MAX} bytes, found {}", found.meta.size);
            return Err(Error::damaged(&self.describe(name), detail));
        }
        let version = Version(found.meta.e_tag.clone().unwrap_or_default());
        let content = self.wait(found.bytes()).map_err(&failed)?;
        Ok(Some((content.to_vec(), version)))
    }

    fn create(&self, name: &str, content: &[u8]) -> Result<bool> {
        self.put_if(name, content, PutMode::Create)
    }

    fn replace(&self, name: &str, content: &[u8], version: &Version) -> Result<bool> {
        let version = UpdateVersion { e_tag: Some(version.0.clone()), version: None };
        self.put_if(name, content, PutMode::Update(version))
    }
}

impl RemoteObjects {
    fn put_if(&self, name: &str, content: &[u8], mode: PutMode) -> Result<bool> {
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.wait(self.store.put_opts(&self.path(name), content.to_vec().into(), options)) {
            Ok(_) => Ok(true),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. }
                | object_store::Error::NotFound { .. },
            ) => Ok(false),
            Err(error) => Err(self.failed(name, "write")(error)),
        }
    }
}

/// Fills a part. Returns false if `next` has no more.
fn fill(part: &mut Vec<u8>, next: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>) -> Result<bool> {
    while part.len() < PART {
        let length = part.len();
        next(part)?;
        if part.len() == length {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    fn objects() -> RemoteObjects {
        RemoteObjects::with_store(Arc::new(InMemory::new()), "s3://bucket/a/b", "a/b").unwrap()
    }

    #[test]
    fn objects_of_any_length_read_back() {
        let objects = objects();
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART + 7] {
            let content: Vec<u8> = (0..length).map(|at| (at / 7 % 251) as u8).collect();
            let mut rest = &content[..];
            objects
                .put_parts("x/y", &mut |part| {
                    let (now, later) = rest.split_at(rest.len().min(1_000_003));
                    part.extend_from_slice(now);
                    rest = later;
                    Ok(())
                })
                .unwrap();
            let mut found = Vec::new();
            assert!(
                objects
                    .stream("x/y", &mut |part| {
                        found.extend_from_slice(part);
                        Ok(())
                    })
                    .unwrap()
            );
            assert!(found == content, "{length}");
            let listed = objects.list("x").unwrap();
            assert_eq!(listed, [Entry { name: "x/y".to_owned(), bytes: length as u64 }]);
        }
        objects.remove("x/y").unwrap();
        objects.remove("x/y").unwrap();
        assert_eq!(objects.read("x/y").unwrap(), None);
        assert!(!objects.stream("x/y", &mut |_| Ok(())).unwrap());
        assert_eq!(objects.describe("x").display().to_string(), "s3://bucket/a/b/x");
    }

    #[test]
    fn an_object_is_created_once_and_replaced_in_its_version_only() {
        let objects = objects();
        assert!(objects.create("lock", b"1").unwrap());
        assert!(!objects.create("lock", b"2").unwrap());
        let (content, version) = objects.read_version("lock").unwrap().unwrap();
        assert_eq!(content, b"1");
        assert!(objects.replace("lock", b"3", &version).unwrap());
        assert!(!objects.replace("lock", b"4", &version).unwrap());
        assert_eq!(objects.read("lock").unwrap().unwrap(), b"3");
    }

    #[tokio::test]
    async fn a_thread_of_another_runtime_can_wait() {
        let objects = objects();
        objects.put("x", b"1").unwrap();
        assert_eq!(objects.read("x").unwrap().unwrap(), b"1");
    }

    #[test]
    fn errors_do_not_repeat_the_headers_of_a_request() {
        let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>The \
                    request signature does not match</Message><StringToSign>AWS4</StringToSign>\
                    <CanonicalRequest>x-amz-security-token:SECRETTOKEN</CanonicalRequest></Error>";
        let source = format!("Server returned non-2xx status code: 403 Forbidden: {body}").into();
        let error = object_store::Error::PermissionDenied { path: "a".to_owned(), source };
        let text = explain(&error);
        assert!(text.contains("SignatureDoesNotMatch The request signature does not match; check"), "{text}");
        assert!(!text.contains("SECRETTOKEN"), "{text}");
        assert_eq!(short("timed out"), "timed out");
    }

    #[test]
    fn addresses_with_credentials_or_without_a_bucket_are_rejected() {
        assert_eq!(parse("s3://bucket/a/b/"), Some(("bucket", "a/b")));
        assert_eq!(parse("s3://bucket"), Some(("bucket", "")));
        for url in ["s3://", "s3:///a", "s3://key:secret@bucket/a", "http://bucket", "s3://bucket/a?b"] {
            assert_eq!(parse(url), None, "{url}");
        }
    }
}
