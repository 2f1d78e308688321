//! What this domain exports, for importers in this very domain: their calls are direct.

use crate::service::Service;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static EXPORTS: Mutex<Option<HashMap<PathBuf, Service>>> = Mutex::new(None);

pub(crate) fn add(path: PathBuf, service: Service) {
    EXPORTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(path, service);
}

pub(crate) fn remove(path: &Path) {
    EXPORTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().remove(path);
}

pub(crate) fn find(path: &Path) -> Option<Service> {
    EXPORTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().get(path).cloned()
}
