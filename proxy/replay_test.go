package proxy

import (
	"bytes"
	"errors"
	"io"
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

func replayOf(src io.ReadCloser, length, limit int64) *replay {
	return newReplay(&http.Request{Body: src, ContentLength: length}, limit)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	fault := errors.New("fault")
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
		{"above, announced", strings.NewReader("0123456789x"), 11, 0, "", errTooLarge},
		{"above, found at once", strings.NewReader("0123456789x"), -1, 11, "", errTooLarge},
		{"above, found late", strings.NewReader("0123456789x"), -1, 2, "", errTooLarge},
		{"broken", io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(fault)), -1, 2, "", fault},
	} {
		src := &closing{Reader: c.src}
		r := replayOf(src, c.length, 10)
		got, _ := io.ReadAll(io.LimitReader(r, int64(c.first)))
		if want := "0123456789x"[:c.first]; !strings.HasPrefix(want, string(got)) {
			t.Errorf("%s: the first reader got %q", c.name, got)
		}
		_ = r.Close() // the first reader has what it wants
		if src.closed {
			t.Errorf("%s: closed under the second reader", c.name)
		}
		body, err := r.whole()
		if string(body) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.name, body, err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, errCut) {
			t.Errorf("%s: the first reader reads on: %v", c.name, err)
		}
		r.release()
		if !src.closed {
			t.Errorf("%s: never closed", c.name)
		}
	}
	for _, none := range []io.ReadCloser{nil, http.NoBody} {
		r := replayOf(none, 0, 10)
		if body, err := r.whole(); r != nil || body != nil || err != nil {
			t.Errorf("no body: %v %q %v", r, body, err)
		}
		r.release()
	}
}

// Without a second send the first reader goes on alone, past any limit, and closes.
func TestReplayReleased(t *testing.T) {
	t.Parallel()
	src := &closing{Reader: strings.NewReader(strings.Repeat("x", 100))}
	r := replayOf(src, -1, 1000)
	_, _ = io.ReadFull(r, make([]byte, 10))
	r.release()
	if rest, err := io.ReadAll(r); len(rest) != 90 || err != nil || src.closed {
		t.Errorf("%d %v %t", len(rest), err, src.closed)
	}
	if _ = r.Close(); !src.closed || r.kept != nil {
		t.Errorf("closed %t, kept %d", src.closed, len(r.kept))
	}
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
	}), pr}, -1, 1000)
	reading := make(chan error, 1)
	go func() {
		_, err := r.Read(make([]byte, 10))
		reading <- err
	}()
	<-begun
	_ = r.Close()
	r.release() // closes the source, which ends the Read
	if err := <-reading; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}

// The first reader is in the middle of reading when the body is taken back.
func TestReplayConcurrently(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("0123456789"), 10_000)
	for range 20 {
		pr, pw := io.Pipe()
		r := replayOf(pr, -1, int64(len(want)))
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
				if _, err := r.Read(buf); err != nil {
					_ = r.Close()
					return
				}
			}
		})
		<-started
		got, err := r.whole()
		wg.Wait()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d of %d bytes, %v", len(got), len(want), err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
