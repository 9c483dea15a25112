//! nghttp2's decoder of header blocks, as a second opinion.

use std::ptr;
use std::slice;

use libnghttp2_sys::{
    NGHTTP2_HD_INFLATE_EMIT, NGHTTP2_HD_INFLATE_FINAL, nghttp2_hd_inflate_change_table_size,
    nghttp2_hd_inflate_del, nghttp2_hd_inflate_end_headers, nghttp2_hd_inflate_hd2,
    nghttp2_hd_inflate_new, nghttp2_hd_inflater, nghttp2_nv,
};

pub struct Inflater(*mut nghttp2_hd_inflater);

impl Inflater {
    pub fn new() -> Self {
        let mut inflater = ptr::null_mut();
        // SAFETY: the pointer is written, and freed once, by `drop`.
        let result = unsafe { nghttp2_hd_inflate_new(&mut inflater) };
        assert_eq!(result, 0);
        Self(inflater)
    }

    pub fn change_table_size(&mut self, bytes: u32) {
        // SAFETY: the inflater lives, and no block is being decoded.
        let result = unsafe { nghttp2_hd_inflate_change_table_size(self.0, bytes as usize) };
        assert_eq!(result, 0);
    }

    /// The fields of a complete block. After an error the inflater must not be used.
    pub fn decode(&mut self, mut block: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut fields = Vec::new();
        loop {
            let mut flags = 0;
            let mut field = nghttp2_nv {
                name: ptr::null_mut(),
                value: ptr::null_mut(),
                namelen: 0,
                valuelen: 0,
                flags: 0,
            };
            // SAFETY: all pointers are valid for the call, which does not write to the block.
            let read = unsafe {
                let input = block.as_ptr().cast_mut();
                nghttp2_hd_inflate_hd2(self.0, &mut field, &mut flags, input, block.len(), 1)
            };
            block = &block[usize::try_from(read).ok()?..];
            let flags = u32::try_from(flags).expect("no flag is negative");
            if flags & NGHTTP2_HD_INFLATE_EMIT != 0 {
                // SAFETY: an emitted field is valid until the next call.
                let (name, value) = unsafe {
                    (
                        slice::from_raw_parts(field.name, field.namelen).to_vec(),
                        slice::from_raw_parts(field.value, field.valuelen).to_vec(),
                    )
                };
                fields.push((name, value));
            }
            if flags & NGHTTP2_HD_INFLATE_FINAL != 0 {
                // SAFETY: the block is complete.
                unsafe { nghttp2_hd_inflate_end_headers(self.0) };
                return Some(fields);
            }
        }
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and freed only here.
        unsafe { nghttp2_hd_inflate_del(self.0) };
    }
}
