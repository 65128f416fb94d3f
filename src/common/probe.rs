// The probe of Rust programs, as common/probe.h is that of C. `piano build` appends it to the root
// file of each crate, in one line, together with RUNS and FRAME. It needs no edition, no std and no crate.
#[doc(hidden)]
mod __piano {
    extern crate core;
    /* As in common/probe.h, with all layouts below. */
    const ABI: u32 = 5;
    pub type At = core::sync::atomic::AtomicU32;
    pub const ZERO: At = At::new(0);
    #[repr(C)]
    pub struct Row {
        name: *const u8,
        file: *const u8,
        line: u32,
        flags: u32,
    }
    pub struct Rows<const N: usize>(pub [Row; N]);
    unsafe impl<const N: usize> Sync for Rows<N> {}
    pub const fn row(name: &'static str, file: &'static str, line: u32, flags: u32) -> Row {
        Row { name: name.as_ptr(), file: file.as_ptr(), line, flags }
    }
    #[repr(C)]
    pub struct Unit {
        version: u32,
        count: u32,
        rows: *const Row,
        at: *const At,
        runs_dir: *const u8,
        frame_fn: *const u8,
    }
    unsafe impl Sync for Unit {}
    pub const fn unit(count: u32, rows: *const Row, at: *const At) -> Unit {
        Unit { version: ABI, count, rows, at, runs_dir: RUNS.as_ptr(), frame_fn: FRAME.as_ptr() }
    }
    pub fn register(unit: &'static Unit) {
        unsafe { __piano_register(unit) }
    }
    pub fn note_allocator() {
        unsafe { __piano_counts_allocator() }
    }
    #[repr(C)]
    struct Head {
        left: i32,
        given: i32,
        each: u64,
    }
    #[repr(C)]
    struct Thread {
        none: Head,
        limit: u64,
        owner: *mut Head,
        counted: u64,
    }
    #[inline(always)]
    fn this() -> *mut Thread {
        let this: *mut Thread;
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!("mov {0}, qword ptr [rip + __piano_self@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]",
                out(reg) this, options(nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!("adrp {0}, :gottprel:__piano_self", "ldr {0}, [{0}, :gottprel_lo12:__piano_self]",
                "mrs {1}, tpidr_el0", "ldr {0}, [{1}, {0}]", out(reg) this, out(reg) _, options(nostack, preserves_flags));
        }
        this
    }
    /* Nothing that reads or writes memory moves across it. */
    #[inline(always)]
    fn barrier() {
        unsafe { core::arch::asm!("", options(nostack, preserves_flags)) }
    }
    pub struct Guard(*mut u8);
    #[inline(always)]
    pub fn begin(at: &'static At) -> Guard {
        unsafe {
            let this = this();
            let offset = at.load(core::sync::atomic::Ordering::Relaxed);
            if (offset as u64) < (*this).limit {
                let head = (this as *mut u8).add(offset as usize) as *mut Head;
                (*head).left -= 1;
                if (*head).left >= 0 {
                    let before = (*this).owner;
                    (*this).counted += (*head).each;
                    (*this).owner = head;
                    barrier();
                    return Guard(before as *mut u8);
                }
                barrier();
                (*head).left += 1;
            }
            Guard(__piano_enter(offset))
        }
    }
    impl Drop for Guard {
        #[inline(always)]
        fn drop(&mut self) {
            barrier();
            unsafe {
                if self.0 as usize & 1 == 0 {
                    (*this()).owner = self.0 as *mut Head;
                } else {
                    __piano_exit(self.0);
                }
            }
        }
    }
    /* The compiler moves arithmetic across calls and barriers if only its operands and its result
     * allow that. These two pass a value through a place that the compiler cannot look into: what is
     * computed from an argument comes after the begin of the call, and a result before its end. */
    pub trait Tie: Sized {
        fn tie(self) -> Self;
    }
    macro_rules! tie_in {
        ($class:ident, $($of:ty)*) => { $(impl Tie for $of {
            #[inline(always)]
            fn tie(self) -> Self {
                let mut value = self;
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    core::arch::asm!("# {0}", inout($class) value, options(nostack, preserves_flags));
                    #[cfg(target_arch = "aarch64")]
                    core::arch::asm!("// {0}", inout($class) value, options(nostack, preserves_flags));
                }
                value
            }
        })* };
    }
    tie_in!(reg, u16 u32 u64 usize i16 i32 i64 isize);
    #[cfg(target_arch = "x86_64")]
    tie_in!(xmm_reg, f32 f64);
    #[cfg(target_arch = "x86_64")]
    tie_in!(reg_byte, u8 i8);
    #[cfg(target_arch = "aarch64")]
    tie_in!(vreg, f32 f64);
    #[cfg(target_arch = "aarch64")]
    tie_in!(reg, u8 i8);
    impl Tie for bool {
        #[inline(always)]
        fn tie(self) -> Self {
            unsafe { core::mem::transmute((self as u8).tie()) }
        }
    }
    impl Tie for char {
        #[inline(always)]
        fn tie(self) -> Self {
            unsafe { core::mem::transmute((self as u32).tie()) }
        }
    }
    #[inline(always)]
    pub fn tie<T: Tie>(value: T) -> T {
        value.tie()
    }
    /* A larger value is in memory in any case, and copying it would take longer than the call. */
    const MOST_HELD: usize = 64;
    #[inline(always)]
    pub fn hold<T>(value: T) -> T {
        let mut value = value;
        if core::mem::size_of::<T>() == 0 || core::mem::size_of::<T>() > MOST_HELD {
            return value;
        }
        let place = &mut value as *mut T as *mut u8;
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!("# {0}", in(reg) place, options(nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!("// {0}", in(reg) place, options(nostack, preserves_flags));
        }
        value
    }
    /* An async function or block: each poll is a call, and what is awaited is not its time. */
    pub struct Polled<F>(F, &'static At);
    #[inline(always)]
    pub fn polled<R, F: core::future::Future<Output = R>>(at: &'static At, future: F) -> Polled<F> {
        Polled(future, at)
    }
    impl<F: core::future::Future> core::future::Future for Polled<F> {
        type Output = F::Output;
        #[inline(always)]
        fn poll(self: core::pin::Pin<&mut Self>, context: &mut core::task::Context<'_>) -> core::task::Poll<F::Output> {
            let _guard = begin(self.1);
            unsafe { self.map_unchecked_mut(|polled| &mut polled.0) }.poll(context)
        }
    }
    /* The program's own allocator. What it takes from malloc is not counted a second time. */
    pub struct Counted<A>(pub A);
    impl<A> core::ops::Deref for Counted<A> {
        type Target = A;
        fn deref(&self) -> &A {
            &self.0
        }
    }
    struct Hidden(*mut Head);
    impl Hidden {
        #[inline(always)]
        unsafe fn new() -> Hidden {
            let this = this();
            let before = (*this).owner;
            (*this).owner = core::ptr::null_mut();
            barrier();
            Hidden(before)
        }
    }
    impl Drop for Hidden {
        #[inline(always)]
        fn drop(&mut self) {
            barrier();
            unsafe { (*this()).owner = self.0 }
        }
    }
    unsafe impl<A: core::alloc::GlobalAlloc> core::alloc::GlobalAlloc for Counted<A> {
        unsafe fn alloc(&self, layout: core::alloc::Layout) -> *mut u8 {
            let hidden = Hidden::new();
            let block = self.0.alloc(layout);
            core::mem::drop(hidden);
            if !block.is_null() {
                __piano_count_alloc(layout.size());
            }
            block
        }
        unsafe fn alloc_zeroed(&self, layout: core::alloc::Layout) -> *mut u8 {
            let hidden = Hidden::new();
            let block = self.0.alloc_zeroed(layout);
            core::mem::drop(hidden);
            if !block.is_null() {
                __piano_count_alloc(layout.size());
            }
            block
        }
        unsafe fn dealloc(&self, block: *mut u8, layout: core::alloc::Layout) {
            let hidden = Hidden::new();
            self.0.dealloc(block, layout);
            core::mem::drop(hidden);
            __piano_count_free(layout.size());
        }
        unsafe fn realloc(&self, block: *mut u8, layout: core::alloc::Layout, size: usize) -> *mut u8 {
            let hidden = Hidden::new();
            let moved = self.0.realloc(block, layout, size);
            core::mem::drop(hidden);
            if !moved.is_null() {
                __piano_count_free(layout.size());
                __piano_count_alloc(size);
            }
            moved
        }
    }
    UNSAFE extern "C" {
        fn __piano_register(unit: *const Unit);
        fn __piano_enter(offset: u32) -> *mut u8;
        fn __piano_exit(kept: *mut u8);
        fn __piano_count_alloc(bytes: usize);
        fn __piano_count_free(bytes: usize);
        fn __piano_counts_allocator();
    }
}
