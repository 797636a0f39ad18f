//! [`without_password`]: an endpoint for messages and logs.

/// The endpoint with three dots instead of its password.
pub fn without_password(endpoint: &str) -> String {
    let Some((before, after)) = endpoint.rsplit_once('@') else { return endpoint.to_owned() };
    let scheme = before.find("://").map_or(0, |at| at + 3);
    let user = before[scheme..].split(':').next().unwrap_or_default();
    format!("{}{user}:...@{after}", &before[..scheme])
}
