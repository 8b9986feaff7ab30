//! Messages between the nodes of a cluster.

use std::ffi::{CStr, c_char};

use redis_module::raw;

use super::{Ctx, api};

/// The kind of message on the bus that is Claret's.
const KIND: u8 = 67;

/// What is called with what arrives.
type Receiver = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *const c_char, u8, *const u8, u32);

impl Ctx {
    /// Sends to the node of this id. Whether the server took it: it can be lost still.
    pub(crate) fn send_to_node(self, id: &CStr, message: &[u8]) -> bool {
        // SAFETY: the id ends in a zero, and the message has so many bytes; both are copied.
        let status = unsafe {
            api!(RedisModule_SendClusterMessage)(
                self.raw(),
                id.as_ptr(),
                KIND,
                message.as_ptr().cast::<c_char>(),
                message.len() as u32,
            )
        };
        Ctx::accepted(status).is_ok()
    }

    /// From now on what arrives is handed to this function.
    pub(crate) fn receive(self, receiver: Receiver) {
        // SAFETY: the function is never unloaded: the module refuses that.
        unsafe { api!(RedisModule_RegisterClusterMessageReceiver)(self.raw(), KIND, Some(receiver)) }
    }
}
