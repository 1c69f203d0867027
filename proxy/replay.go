package proxy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
)

var (
	errCut        = errors.New("request body taken back for a further attempt")
	errGone       = errors.New("request body was sent in part and is not kept, so it cannot be sent again")
	errIncomplete = errors.New("request body could not be read to its end")
)

// replay is a request body that is kept while it is being sent for the first time, so
// that the request can be sent again, with a payment or to another upstream.
//
// If a reader is still reading when the next one is opened, it gets no more, and what it was about
// to get is not lost. A reader may close the body while a Read waits for the client, so mu is never
// held while the source is read.
type replay struct {
	src io.ReadCloser
	end sync.Once // closes src

	rd sync.Mutex // held while src is read

	mu     sync.Mutex
	cur    *reading // all others are cut
	kept   kept
	sum    *bodySum
	err    error  // of src, io.EOF at its end
	lost   error  // why the copy stops short, nil while it does not
	ahead  []byte // read from src behind the end of such a copy, for the next reader
	passed bool   // a reader has gone beyond the copy: the body cannot be sent again
	free   bool   // it will not be sent again: the current reader goes on alone
}

// reading is a reader of a replay. Only the last one opened gets anything.
type reading struct {
	r      *replay
	pos    int64 // in the copy
	closed bool
}

// newReplay wraps the body of a key's request, which must have one.
func newReplay(req *http.Request, keyID string, s *spooler) *replay {
	r := &replay{src: req.Body, kept: s.keep(keyID, req.ContentLength), sum: newBodySum(req.Header)}
	if req.ContentLength > s.most {
		r.lost = errTooLarge
	}
	return r
}

// open starts a reader at the beginning, unless that is gone. It cuts off the others.
func (r *replay) open() (*reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passed || r.free {
		return nil, errGone
	}
	r.cur = &reading{r: r}
	return r.cur, nil
}

// Read implements io.Reader.
func (b *reading) Read(p []byte) (int, error) {
	r := b.r
	r.rd.Lock()
	defer r.rd.Unlock()
	if n, err := r.stored(b, p); n > 0 || err != nil {
		return n, err
	}
	n, err := r.src.Read(p)
	return r.arrived(b, p[:n], err)
}

// Close implements io.Closer. The source stays open until it is decided that the body is
// not sent again.
func (b *reading) Close() error {
	r := b.r
	r.mu.Lock()
	b.closed = true
	last := r.free && r.cur == b
	if last {
		r.kept.drop()
	}
	r.mu.Unlock()
	if last {
		r.closeSource()
	}
	return nil
}

// stored reads from the copy. Without bytes and without an error the source is next.
func (r *replay) stored(b *reading, p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.cur != b:
		return 0, errCut
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case len(p) == 0:
		return 0, nil
	case b.pos < r.kept.size:
		n, err := r.kept.at(p, b.pos)
		b.pos += int64(n)
		return n, err
	case len(r.ahead) > 0:
		n := copy(p, r.ahead)
		r.ahead = r.ahead[n:]
		r.pass()
		return n, nil
	}
	return 0, r.err
}

// arrived takes bytes that came from the source. They are for the reader b, unless that was cut
// meanwhile. Without a reader b is nil.
func (r *replay) arrived(b *reading, p []byte, err error) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	mine := b != nil && r.cur == b
	n := 0
	if r.lost == nil && !r.free {
		_, _ = r.sum.Write(p)
		n, r.lost = r.kept.add(p)
	}
	switch {
	case !mine:
		r.ahead = append(r.ahead, p[n:]...)
		return 0, errCut
	case n < len(p):
		r.pass()
	default:
		b.pos += int64(n)
	}
	return len(p), err
}

// text returns a body of at most so many bytes, if all of it is kept; nil: it is not, or there is none. Its reader
// goes on, because the connection of one that is cut off ends, and with that the answer. length is that of the
// request; -1: not known.
func (r *replay) text(length, most int64) []byte {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.err == io.EOF || length == r.kept.size //nolint:errorlint // readers return it bare
	if !all || r.lost != nil || r.passed || r.free || r.kept.size > most {
		return nil
	}
	text := make([]byte, r.kept.size)
	for at := int64(0); at < r.kept.size; {
		n, err := r.kept.at(text[at:], at)
		if at += int64(n); err != nil {
			return nil
		}
	}
	return text
}

// pass notes that bytes were handed out which no later reader can get. The caller holds mu.
func (r *replay) pass() {
	r.passed = true
	r.kept.drop()
}

// whole takes the body back from its reader and completes the copy from the client. After an error,
// one of errTooLarge, errQuota, errSpool, errGone and errIncomplete, it can still be sent once.
func (r *replay) whole() (content, error) {
	if r == nil {
		sum := pay.Hash(sha256.Sum256(nil))
		return content{sum: sum, plain: sum}, nil
	}
	r.mu.Lock()
	r.cur = nil
	r.mu.Unlock()
	r.rd.Lock()
	defer r.rd.Unlock()
	var chunk []byte
	for {
		r.mu.Lock()
		passed, lost, err := r.passed || r.free, r.lost, r.err
		if !passed && lost == nil && err == io.EOF { //nolint:errorlint // readers return it bare
			defer r.mu.Unlock()
			says, plain := r.sum.sums()
			return content{replay: r, size: r.kept.size, sum: says, plain: plain}, nil
		}
		r.mu.Unlock()
		switch {
		case lost != nil:
			return content{}, lost
		case passed:
			return content{}, errGone
		case err != nil:
			return content{}, fmt.Errorf("%w: %w", errIncomplete, err)
		}
		if chunk == nil {
			chunk = make([]byte, 16<<10)
		}
		n, err := r.src.Read(chunk)
		_, _ = r.arrived(nil, chunk[:n], err) // the loop looks at the result
	}
}

// release decides that the body is not sent again: its reader goes on alone. It never
// waits, because the reader may be waiting for the client.
func (r *replay) release() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.free = true
	idle := r.cur == nil || r.cur.closed
	if idle || r.cur.pos >= r.kept.size {
		r.kept.drop()
	}
	r.mu.Unlock()
	if idle {
		r.closeSource()
	}
}

func (r *replay) closeSource() { r.end.Do(func() { _ = r.src.Close() }) }

// content holds the whole body of a request that is paid for.
type content struct {
	replay *replay // nil: there is none
	size   int64
	sum    pay.Hash // by what it says: see bodySum
	plain  pay.Hash // as it came
}

// gone reports whether the body has been given up, so that it cannot be sent any more.
func (c content) gone() bool {
	if c.size == 0 {
		return false
	}
	c.replay.mu.Lock()
	defer c.replay.mu.Unlock()
	return c.replay.free
}

// reader starts a reader of the body, nil if there is nothing in it.
func (c content) reader() (io.ReadCloser, error) {
	if c.size == 0 {
		return nil, nil
	}
	return c.replay.open()
}

// sameBody reports whether two requests have the same body to read from. If that cannot
// be told, they have.
func sameBody(a, b io.ReadCloser) bool {
	if a == nil || b == nil {
		return a == b
	}
	return !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable() || a == b
}

var (
	errTooLarge = errors.New("request body above the replay limit")
	errQuota    = errors.New("too much is kept of other request bodies")
	errSpool    = errors.New("request body cannot be written to a file")
)

// spooler keeps request bodies: the beginning of each in memory, the rest in a file. Its quotas
// bound all bodies that are kept at the same time.
type spooler struct {
	memory   int64 // of one body in memory, in bytes
	most     int64 // of one body in all
	files    bool
	dir      string
	observer Observer
	log      *slog.Logger

	inMemory, onDisk *quota
	guaranteed       *quota      // in memory, for the beginning of each body
	troubled         atomic.Bool // the last file could not be written, and the log says so
}

// keep starts the copy of a body of the given length, -1 if that is not known.
func (s *spooler) keep(keyID string, length int64) kept {
	k := kept{spool: s, keyID: keyID, first: 4 << 10}
	if length >= 0 {
		k.first = int(min(length, 64<<10))
	}
	return k
}

// kept is the copy of one body. It is not safe for concurrent use.
type kept struct {
	spool      *spooler
	keyID      string
	first      int    // what is allocated first
	memory     []byte // its capacity counts against the quotas in memory
	guaranteed int64  // the part of it that the guaranteed quota has
	file       *os.File
	name       string // of the file, if it could not be unlinked while it is open
	size       int64
}

// add appends as much of p as can be kept. If that is not all of it, the error says why:
// errTooLarge, errQuota or errSpool.
func (k *kept) add(p []byte) (int, error) {
	if k.size+int64(len(p)) > k.spool.most {
		return 0, errTooLarge
	}
	n := 0
	if k.file == nil { // the file goes on where the memory ends
		n = k.fit(len(p))
		k.memory = append(k.memory, p[:n]...)
		k.size += int64(n)
	}
	if n < len(p) {
		if err := k.spill(p[n:]); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// fit makes space in memory for n more bytes, or fewer, and returns the number.
func (k *kept) fit(n int) int {
	want := int(min(int64(len(k.memory)+n), k.spool.memory))
	if have := cap(k.memory); want > have {
		to := int(min(int64(max(2*have, want, k.first)), k.spool.memory))
		if got := k.grow(int64(to - have)); got > 0 {
			k.memory = append(make([]byte, 0, have+int(got)), k.memory...)
		}
	}
	return min(want, cap(k.memory)) - len(k.memory)
}

// grow reserves memory for n more bytes, or for fewer, and returns the number.
func (k *kept) grow(n int64) int64 {
	s := k.spool
	granted := min(n, guaranteedBytes-k.guaranteed)
	if granted > 0 && !s.guaranteed.take(k.keyID, granted) {
		granted = 0
	}
	k.guaranteed += granted
	if rest := n - granted; rest > 0 && !s.inMemory.take(k.keyID, rest) {
		return granted
	}
	return n
}

// spill appends p to the file, all of it or nothing.
func (k *kept) spill(p []byte) error {
	s := k.spool
	if !s.files || !s.onDisk.take(k.keyID, int64(len(p))) {
		return errQuota
	}
	err := k.create()
	if err == nil {
		_, err = k.file.WriteAt(p, k.size-int64(len(k.memory)))
	}
	if err != nil {
		s.onDisk.give(k.keyID, int64(len(p)))
		if s.troubled.CompareAndSwap(false, true) {
			s.log.Error("request bodies cannot be spooled: their 402s are not paid", "error", err)
		}
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	s.troubled.Store(false)
	k.size += int64(len(p))
	return nil
}

// create makes the file. Where the system allows it, the file loses its name at once, so that a
// crash leaves nothing behind.
func (k *kept) create() error {
	if k.file != nil {
		return nil
	}
	f, err := os.CreateTemp(k.spool.dir, "purser-body-") // with mode 0600
	if err != nil {
		return err
	}
	k.file = f
	k.spool.observer.Spooled(0, 0, 1)
	if os.Remove(f.Name()) != nil {
		k.name = f.Name()
	}
	return nil
}

// at reads from an offset below the size.
func (k *kept) at(p []byte, off int64) (int, error) {
	inMemory := int64(len(k.memory))
	if off < inMemory {
		return copy(p, k.memory[off:]), nil
	}
	return k.file.ReadAt(p[:min(int64(len(p)), k.size-off)], off-inMemory)
}

// drop gives everything back. The copy is empty then, and stays so.
func (k *kept) drop() {
	k.spool.guaranteed.give(k.keyID, k.guaranteed)
	k.spool.inMemory.give(k.keyID, int64(cap(k.memory))-k.guaranteed)
	k.spool.onDisk.give(k.keyID, k.size-int64(len(k.memory)))
	k.memory, k.guaranteed, k.size = nil, 0, 0
	if k.file == nil {
		return
	}
	_ = k.file.Close() // nothing in it is wanted any more
	k.spool.observer.Spooled(0, 0, -1)
	if k.name != "" {
		_ = os.Remove(k.name) //nolint:gosec // the name is os.CreateTemp's
	}
	k.file, k.name = nil, ""
}

// guaranteedBytes bounds the part of each request body that is kept in memory whatever other
// requests keep, unless MaxReplay is less. It holds for guaranteedRequests requests of a key at a
// time; more of them share the common quotas.
const (
	guaranteedBytes    = 64 << 10
	guaranteedRequests = 1024
)

// quota is a number of bytes that the requests of all keys share. A key has no more than its share
// of it, so that no key's uploads crowd out those of others.
type quota struct {
	limit   int64
	share   int64 // of one key
	used    atomic.Int64
	changed func(by int64)

	mu sync.Mutex
	by map[string]int64 // bytes by key id; keys without any are absent
}

// newQuota makes a quota of which a key gets a quarter, and at least enough for one body.
func newQuota(limit, body int64, changed func(by int64)) *quota {
	return &quota{limit: limit, share: min(limit, max(limit/4, body)), changed: changed, by: make(map[string]int64)}
}

func (q *quota) take(keyID string, n int64) bool {
	q.mu.Lock()
	fits := (q.by[keyID]+n <= q.share || failpoint.Off(failpoint.Rooms)) && q.used.Load()+n <= q.limit
	if fits {
		q.by[keyID] += n
		q.used.Add(n)
	}
	q.mu.Unlock()
	if fits {
		q.changed(n)
	}
	return fits
}

func (q *quota) give(keyID string, n int64) {
	if n == 0 {
		return
	}
	q.mu.Lock()
	q.used.Add(-n)
	if q.by[keyID] -= n; q.by[keyID] == 0 {
		delete(q.by, keyID)
	}
	q.mu.Unlock()
	q.changed(-n)
}
