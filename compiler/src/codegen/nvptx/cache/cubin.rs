//! Machine code as bytes: a line of JSON with what the assembler said, then the image.

use serde::{Deserialize, Serialize};

use crate::codegen::error::CodegenError;
use crate::codegen::nvptx::toolkit::{Cubin, Resources};

/// What is kept beside the image.
#[derive(Serialize, Deserialize)]
struct Facts {
    resources: Resources,
    messages: Vec<String>,
}

pub(super) fn write(cubin: &Cubin) -> Result<Vec<u8>, CodegenError> {
    let facts = Facts {
        resources: cubin.resources,
        messages: cubin.messages.clone(),
    };
    let mut bytes = serde_json::to_vec(&facts).map_err(|error| CodegenError::Io {
        what: "cannot write what ptxas said of a kernel".to_owned(),
        source: error.into(),
    })?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&cubin.image);
    Ok(bytes)
}

pub(super) fn read(bytes: &[u8]) -> Option<Cubin> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let facts: Facts = serde_json::from_slice(&bytes[..end]).ok()?;
    Some(Cubin {
        image: bytes[end + 1..].to_vec(),
        resources: facts.resources,
        messages: facts.messages,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_reads_back() {
        let cubin = Cubin {
            image: vec![0x7f, b'E', b'L', b'F', b'\n', 0, 0xff],
            resources: Resources {
                registers: 168,
                stack_bytes: 8,
                spill_store_bytes: 4,
                spill_load_bytes: 12,
                static_shared_bytes: 1024,
            },
            messages: vec!["ptxas warning : two\nlines".to_owned()],
        };
        assert_eq!(read(&write(&cubin).expect("bytes")), Some(cubin));
        assert_eq!(read(b"no line"), None);
        assert_eq!(read(b"{}\nimage"), None);
    }
}
