//! The exports of this domain, for importers in the same domain: their calls are direct.

use crate::control::clerk::Offer;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

static EXPORTS: Mutex<Option<HashMap<PathBuf, Arc<Offer>>>> = Mutex::new(None);

pub(crate) fn add(path: PathBuf, offer: Arc<Offer>) {
    EXPORTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(path, offer);
}

pub(crate) fn remove(path: &Path) {
    EXPORTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().remove(path);
}

pub(crate) fn find(path: &Path) -> Option<Arc<Offer>> {
    EXPORTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().get(path).cloned()
}
