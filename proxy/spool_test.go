package proxy

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

func TestSpoolLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, o := range []PayOptions{{MaxReplay: -1}, {MaxReplayTotal: -1}, {MaxSpoolTotal: -1}} {
		if _, err := NewTransport(TransportOptions{Payer: w.Payer, Next: &http.Transport{}, PayOptions: o}); err == nil {
			t.Errorf("taken: %+v", o)
		}
	}
	tr, err := NewTransport(TransportOptions{Payer: w.Payer, Next: &http.Transport{}})
	if err != nil {
		t.Fatal(err)
	}
	s := tr.spool
	if s.memory != 1<<20 || s.most != 64<<20 || !s.files || s.dir != os.TempDir() || s.inMemory.limit != 256<<20 || s.onDisk.limit != 1<<30 ||
		s.inMemory.share != 64<<20 || s.onDisk.share != 256<<20 || s.guaranteed.share != 64<<20 {
		t.Errorf("defaults: %d %d %t %s %d %d", s.memory, s.most, s.files, s.dir, s.inMemory.limit, s.onDisk.limit)
	}
}

// The file is readable for its owner only, and has no name where the system can do without.
func TestSpoolFile(t *testing.T) {
	t.Parallel()
	s := keeper(t, 3, 10)
	k := s.keep("key", -1)
	if n, err := k.add([]byte("01234")); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	info, err := k.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %s", info.Mode())
	}
	if left := files(t, s.dir); (len(left) == 0) != (k.name == "") {
		t.Errorf("files %v, name %q", left, k.name)
	}
	if runtime.GOOS == "linux" && k.name != "" {
		t.Errorf("a crash would leave %s", k.name)
	}
	file := k.file
	k.drop()
	if left := files(t, s.dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is open: %v", err)
	}
	k.drop() // once more does no harm
	nothingKept(t, s)
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A file that cannot be unlinked while it is open is removed in the end.
func TestSpoolFileWithAName(t *testing.T) {
	t.Parallel()
	s := keeper(t, 0, 10)
	f, err := os.CreateTemp(s.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	k := s.keep("key", -1)
	k.file, k.name = f, f.Name()
	k.drop()
	if left := files(t, s.dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestSpoolTotals(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	s := keeper(t, 80*kib, 200*kib)
	s.inMemory.limit, s.onDisk.limit = 26*kib, 100*kib
	s.inMemory.share, s.onDisk.share = 20*kib, 60*kib
	add := func(k *kept, size, inMemory int, want error) {
		t.Helper()
		n, err := k.add(make([]byte, size*kib))
		if !errors.Is(err, want) || want == nil && n != size*kib || len(k.memory) > inMemory*kib {
			t.Fatal(n, err, len(k.memory))
		}
	}
	a, b, c, d := s.keep("one", 200*kib), s.keep("one", -1), s.keep("two", -1), s.keep("two", -1)
	add(&a, 100, 80, nil)      // 64 guaranteed and 16 in memory, 20 in its file
	add(&b, 110, 64, errQuota) // of its key's 4 and 40
	b.drop()
	b = s.keep("one", -1)
	add(&b, 64, 64, nil) // is always there
	add(&b, 40, 64, nil)
	add(&c, 100, 64, nil)
	add(&d, 64, 64, nil)
	add(&d, 20, 64, errQuota) // of all
	a.drop()
	d.drop()
	d = s.keep("two", -1)
	add(&d, 90, 80, nil)
	b.drop()
	c.drop()
	d.drop()
	nothingKept(t, s)

	// Beyond so many requests a key has the common room.
	s.guaranteed.share = 2 * guaranteedBytes
	a, b, c, d = s.keep("one", -1), s.keep("one", -1), s.keep("one", -1), s.keep("two", -1)
	add(&a, 64, 64, nil)
	add(&b, 64, 64, nil)
	add(&c, 60, 20, nil)
	add(&d, 64, 64, nil)
	a.drop()
	b.drop()
	c.drop()
	d.drop()
	nothingKept(t, s)
}

// Large bodies are paid for as small ones are, and nothing of them stays behind.
func TestSpooledBody(t *testing.T) {
	t.Parallel()
	w, dir := newWorld(t), t.TempDir()
	tr := w.transport(nil, TransportOptions{PayOptions: PayOptions{MaxReplay: 10_000, MaxSpool: 3_000_000, SpoolDir: dir}})
	data := make([]byte, 3_000_000)
	_, _ = rand.Read(data)
	for _, chunked := range []bool{false, true} {
		for _, early := range []bool{false, true} { // whether the seller asks before it has read
			s := proxytest.Challenges(t, func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
				if !early {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				s.WriteChallenge(rw, r, s.Price, "Payment required")
			})
			var body io.Reader = bytes.NewReader(data)
			if chunked {
				body = io.MultiReader(body)
			}
			call := w.call()
			a := w.must(tr, call, proxytest.Request(t, "POST", s.URL+"/upload", body))
			a.Paid(t)
			if a.Text != "paid:POST:"+string(data) {
				t.Errorf("chunked %t, early %t: %d bytes came back changed", chunked, early, len(a.Text))
			}
			call.Finish(true)
			proxytest.Eventually(t, "everything is given back", func() bool {
				return tr.spool.inMemory.used.Load() == 0 && tr.spool.onDisk.used.Load() == 0
			})
			if left := files(t, dir); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			s.Expect(1, 1, 1)
		}
	}
}

// A body that cannot be spooled passes all the same. Its 402 does not: the request may have
// been paid when the disk was well.
func TestSpoolFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tr := w.transport(nil, TransportOptions{Logger: w.Logger, PayOptions: PayOptions{MaxReplay: 1000, SpoolDir: filepath.Join(t.TempDir(), "missing")}})
	var got []string
	s := proxytest.Challenges(t, func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = append(got, string(b))
		s.WriteChallenge(rw, r, s.Price, "Payment required")
	})
	data := strings.Repeat("0123456789", 20_000)
	for range 3 {
		w.send(tr, w.Key, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader(data))).Short(t, DeclinedSpool)
	}
	s.Expect(3, 0, 0)
	for _, b := range got {
		if b != data {
			t.Errorf("the seller got %d of %d bytes", len(b), len(data))
		}
	}
	if n := strings.Count(w.Logs.String(), "cannot be spooled"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	proxytest.Eventually(t, "everything is given back", func() bool {
		p := tr.spool
		return p.inMemory.used.Load() == 0 && p.onDisk.used.Load() == 0
	})
	// Small ones need no file.
	w.send(tr, w.Key, proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("small"))).Paid(t)
}

// After an error another attempt may follow, so the body is kept until the call is over.
func TestSpoolEndsWithTheCall(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
	tr, call := w.transport(nil, TransportOptions{PayOptions: PayOptions{MaxReplay: 1000, SpoolDir: t.TempDir()}}), w.call()
	for range 3 {
		in := &incoming{t: t, method: "POST", body: strings.Repeat("x", 5000)}
		if a, err := w.trip(tr, call, in.to(s.URL+"/x")); err != nil || a.StatusCode != 503 {
			t.Fatal(a, err)
		}
		if m, d := tr.spool.guaranteed.used.Load(), tr.spool.onDisk.used.Load(); m != 1000 || d != 4000 {
			t.Errorf("%d and %d bytes are kept", m, d)
		}
	}
	call.Finish(true)
	nothingKept(t, tr.spool)
}

// A file that breaks under the paid request is a send without an answer, not a second
// payment and not a request with half a body.
func TestSpoolBreaksUnderThePaidRequest(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	tr := w.transport(nil, TransportOptions{PayOptions: PayOptions{MaxReplay: 1000, SpoolDir: t.TempDir()}})
	call := w.call()
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = call.body.kept.file.Close() // the disk is gone
		s.WriteChallenge(rw, r, s.Price, "Payment required")
	}
	lost := w.lost(tr, call, proxytest.Request(t, "POST", s.URL+"/x", bytes.NewReader(make([]byte, 500_000))))
	call.Finish(false)
	if lost.Payment.State != pay.Open {
		t.Fatalf("%v", lost)
	}
	s.Expect(1, 0, 0) // half a request is none
}
