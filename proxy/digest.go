package proxy

import (
	"crypto/sha256"
	"hash"
	"io"
	"net/http"
	"sync"

	"github.com/purserpay/purser/pay"
)

// digest hashes the body of an answer to a payment as it comes from the seller, before purser changes anything in it.
type digest struct {
	io.ReadCloser
	status int

	mu    sync.Mutex // a payment may end while its answer is read
	sum   hash.Hash
	size  int64
	most  int64 // the length of the body; -1: not known
	whole bool
}

// digestOf puts a digest below the body of an answer, and returns what tells of it.
func digestOf(resp *http.Response) func() pay.Heard {
	d := &digest{status: resp.StatusCode, most: resp.ContentLength}
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols: // the body is the connection
		return d.heard
	case resp.Body == nil || resp.Body == http.NoBody:
		d.sum, d.whole = sha256.New(), true
		return d.heard
	}
	d.ReadCloser, d.sum = resp.Body, sha256.New()
	resp.Body = d
	return d.heard
}

// Read implements io.Reader.
func (d *digest) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = d.sum.Write(p[:n])
	d.size += int64(n)
	d.whole = d.whole || err == io.EOF || d.size == d.most //nolint:errorlint // bodies return it bare
	return n, err
}

// heard tells of the answer so far.
func (d *digest) heard() pay.Heard {
	h := pay.Heard{Status: d.status}
	if d.sum == nil {
		return h
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h.Body = pay.AnswerBody{Hash: pay.Hash(d.sum.Sum(nil)), Size: d.size, Cut: !d.whole}
	return h
}
