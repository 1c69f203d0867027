package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// closing notes that a body was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// keeper is a spooler that keeps so much in memory, and bodies of so much in all.
func keeper(t *testing.T, memory, most int64) *spooler {
	t.Helper()
	if most <= memory {
		most = -1
	}
	s, err := newSpooler(PayOptions{MaxReplay: memory, MaxSpool: most, SpoolDir: t.TempDir(), Observer: Unobserved()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func replayOf(src io.ReadCloser, length int64, s *spooler) *replay {
	return newReplay(&http.Request{Body: src, ContentLength: length}, "key", s)
}

// reopen is a reader of a body that can be sent once more.
func reopen(t *testing.T, r *replay) *reading {
	t.Helper()
	b, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// all reads a body that is kept, in pieces, and closes its reader.
func (c content) all(t *testing.T) string {
	t.Helper()
	b, err := c.reader()
	if err != nil {
		t.Fatal(err)
	}
	if b == nil {
		return ""
	}
	defer b.Close()
	got, err := io.ReadAll(iotest.HalfReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	fault := errors.New("fault")
	for _, memory := range []int64{10, 4} { // all in memory, and most of it in a file
		for _, c := range []struct {
			name   string
			src    io.Reader
			length int64
			first  int // bytes that the first reader takes
			want   string
			err    error
		}{
			{"untouched", strings.NewReader("0123456789"), 10, 0, "0123456789", nil},
			{"half read", strings.NewReader("0123456789"), 10, 5, "0123456789", nil},
			{"all read", strings.NewReader("0123456789"), -1, 11, "0123456789", nil},
			{"byte by byte", iotest.OneByteReader(strings.NewReader("0123456789")), -1, 3, "0123456789", nil},
			{"end with data", iotest.DataErrReader(strings.NewReader("0123456789")), -1, 10, "0123456789", nil},
			{"empty", strings.NewReader(""), -1, 0, "", nil},
			{"above, announced", strings.NewReader("0123456789x"), 11, 0, "", errTooLarge},
			{"above, found at once", strings.NewReader("0123456789x"), -1, 11, "", errTooLarge},
			{"above, found late", strings.NewReader("0123456789x"), -1, 2, "", errTooLarge},
			{"broken", io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(fault)), -1, 2, "", fault},
		} {
			s := keeper(t, memory, 10)
			src := &closing{Reader: c.src}
			r := replayOf(src, c.length, s)
			first := reopen(t, r)
			got, _ := io.ReadAll(io.LimitReader(first, int64(c.first)))
			if want := "0123456789x"[:c.first]; !strings.HasPrefix(want, string(got)) {
				t.Errorf("%s: the first reader got %q", c.name, got)
			}
			_ = first.Close() // it has what it wants
			if src.closed {
				t.Errorf("%s: closed under the second reader", c.name)
			}
			body, err := r.whole()
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			if c.err == nil {
				if body.sum != sha256.Sum256([]byte(c.want)) || body.size != int64(len(c.want)) {
					t.Errorf("%s: %d bytes with hash %x", c.name, body.size, body.sum)
				}
				for range 3 { // as often as there are attempts
					if got := body.all(t); got != c.want {
						t.Errorf("%s: %q", c.name, got)
					}
				}
			}
			if _, err := first.Read(make([]byte, 1)); !errors.Is(err, errCut) {
				t.Errorf("%s: the first reader reads on: %v", c.name, err)
			}
			r.release()
			if !src.closed {
				t.Errorf("%s: never closed", c.name)
			}
			if _, err := r.open(); !errors.Is(err, errGone) {
				t.Errorf("%s: opened after its release: %v", c.name, err)
			}
			nothingKept(t, s)
		}
	}
	var none *replay
	if body, err := none.whole(); body.all(t) != "" || body.sum != sha256.Sum256(nil) || err != nil {
		t.Errorf("no body: %+v %v", body, err)
	}
	none.release()
}

// nothingKept checks that nothing is kept any more.
func nothingKept(t *testing.T, s *spooler) {
	t.Helper()
	if guaranteed, m, d := s.guaranteed.used.Load(), s.inMemory.used.Load(), s.onDisk.used.Load(); guaranteed != 0 || m != 0 || d != 0 {
		t.Errorf("%d and %d bytes in memory and %d on disk are still taken", guaranteed, m, d)
	}
	if n := len(s.guaranteed.by) + len(s.inMemory.by) + len(s.onDisk.by); n != 0 {
		t.Errorf("%d keys are still remembered", n)
	}
}

// A body that turns out to be too long while it is collected can still be sent once.
func TestReplayTooLongIsSentOnce(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("0123456789", 10_000)
	for _, memory := range []int64{100, 20_000} {
		for _, source := range []io.Reader{strings.NewReader(want), iotest.HalfReader(strings.NewReader(want))} {
			s := keeper(t, memory, 20_000)
			r := replayOf(&closing{Reader: source}, -1, s)
			if _, err := r.whole(); !errors.Is(err, errTooLarge) {
				t.Fatal(err)
			}
			b := reopen(t, r)
			got, err := io.ReadAll(b)
			if err != nil || string(got) != want {
				t.Fatalf("%d of %d bytes, %v", len(got), len(want), err)
			}
			if _, err := r.open(); !errors.Is(err, errGone) {
				t.Errorf("opened once more: %v", err)
			}
			if _, err := r.whole(); !errors.Is(err, errTooLarge) {
				t.Errorf("collected: %v", err)
			}
			nothingKept(t, s)
		}
	}
}

// A further unpaid attempt gets everything, however far the one before has read.
func TestReplayUnpaidAttempts(t *testing.T) {
	t.Parallel()
	const want = "0123456789"
	for first := range len(want) + 1 {
		s := keeper(t, 4, 10)
		r := replayOf(&closing{Reader: iotest.OneByteReader(strings.NewReader(want))}, -1, s)
		before := reopen(t, r)
		_, _ = io.ReadFull(before, make([]byte, first))
		b := reopen(t, r)
		if got, err := io.ReadAll(b); string(got) != want || err != nil {
			t.Errorf("after %d bytes: %q %v", first, got, err)
		}
		if _, err := before.Read(make([]byte, 1)); !errors.Is(err, errCut) {
			t.Errorf("the first reader reads on: %v", err)
		}
		_ = before.Close()
		if body, err := r.whole(); err != nil || body.all(t) != want {
			t.Errorf("after %d bytes: %v", first, err)
		}
		_ = b.Close()
		r.release()
		nothingKept(t, s)
	}
}

// The next reader gets the bytes that a cut reader was about to get, even if they are not kept any more.
func TestReplayCutInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{100, 4} {
		pr, pw := io.Pipe()
		begun := make(chan struct{})
		var once sync.Once
		r := replayOf(struct {
			io.Reader
			io.Closer
		}{readerFunc(func(p []byte) (int, error) {
			once.Do(func() { close(begun) })
			return pr.Read(p)
		}), pr}, -1, keeper(t, memory, memory))
		first := reopen(t, r)
		cut := make(chan error, 1)
		go func() {
			_, err := first.Read(make([]byte, 20))
			cut <- err
		}()
		<-begun
		second := reopen(t, r) // does not wait for the client
		_, _ = io.WriteString(pw, "0123456789")
		if err := <-cut; !errors.Is(err, errCut) {
			t.Errorf("the first reader: %v", err)
		}
		go func() {
			_, _ = io.WriteString(pw, "abc")
			_ = pw.Close()
		}()
		if got, err := io.ReadAll(second); string(got) != "0123456789abc" || err != nil {
			t.Errorf("%q %v", got, err)
		}
		r.release()
	}
}

// Without another attempt the reader goes on alone, past any limit, and closes.
func TestReplayReleased(t *testing.T) {
	t.Parallel()
	for _, memory := range []int64{1000, 5} {
		s := keeper(t, memory, 1000)
		src := &closing{Reader: strings.NewReader(strings.Repeat("x", 100))}
		r := replayOf(src, -1, s)
		b := reopen(t, r)
		_, _ = io.ReadFull(b, make([]byte, 10))
		r.release()
		nothingKept(t, s)
		if rest, err := io.ReadAll(b); len(rest) != 90 || err != nil || src.closed {
			t.Errorf("%d %v %t", len(rest), err, src.closed)
		}
		if _ = b.Close(); !src.closed {
			t.Error("not closed")
		}
		nothingKept(t, s)
	}
}

// A reader of the copy that is still at it keeps the copy.
func TestReplayReleasedUnderAReader(t *testing.T) {
	t.Parallel()
	s := keeper(t, 5, 1000)
	r := replayOf(&closing{Reader: strings.NewReader(strings.Repeat("x", 100))}, -1, s)
	if _, err := r.whole(); err != nil {
		t.Fatal(err)
	}
	b := reopen(t, r)
	_, _ = io.ReadFull(b, make([]byte, 10))
	r.release()
	if rest, err := io.ReadAll(b); len(rest) != 90 || err != nil {
		t.Errorf("%d %v", len(rest), err)
	}
	_ = b.Close()
	nothingKept(t, s)
}

// Closing and releasing do not wait for a Read that waits for the client.
func TestReplayNeverBlocks(t *testing.T) {
	t.Parallel()
	pr, pw := io.Pipe()
	defer pw.Close()
	begun := make(chan struct{})
	r := replayOf(struct {
		io.Reader
		io.Closer
	}{readerFunc(func(p []byte) (int, error) {
		close(begun)
		return pr.Read(p)
	}), pr}, -1, keeper(t, 1000, 0))
	b := reopen(t, r)
	reading := make(chan error, 1)
	go func() {
		_, err := b.Read(make([]byte, 10))
		reading <- err
	}()
	<-begun
	_ = b.Close()
	r.release() // closes the source, which ends the Read
	if err := <-reading; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

// The first reader is in the middle of reading when the body is taken back.
func TestReplayConcurrently(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("0123456789"), 10_000)
	for i := range 20 {
		pr, pw := io.Pipe()
		r := replayOf(pr, -1, keeper(t, int64(len(want)/(1+i%2*9)), int64(len(want))))
		b := reopen(t, r)
		var wg sync.WaitGroup
		wg.Go(func() {
			for rest := want; len(rest) > 0; rest = rest[min(len(rest), 777):] {
				_, _ = pw.Write(rest[:min(len(rest), 777)])
			}
			_ = pw.Close()
		})
		started := make(chan struct{})
		wg.Go(func() {
			buf := make([]byte, 1000)
			for i := 0; ; i++ {
				if i == 3 {
					close(started)
				}
				if _, err := b.Read(buf); err != nil {
					_ = b.Close()
					return
				}
			}
		})
		<-started
		body, err := r.whole()
		wg.Wait()
		if err != nil || body.all(t) != string(want) {
			t.Fatalf("%d of %d bytes, %v", body.size, len(want), err)
		}
		r.release()
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
