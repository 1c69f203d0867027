package proxy

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/purserpay/purser/x402"
)

// readChallenge looks for an x402 challenge in a 402. If no header has one it reads the body,
// at most 64 KiB of it, and puts back what it read, so that the response can be handed on as
// it came. The error says why a challenge that is there cannot be read.
func readChallenge(resp *http.Response, extra []string) (x402.Challenge, bool, error) {
	if c, found, err := x402.FromResponse(resp.Header, nil, extra...); found {
		takeIn(resp)
		return c, true, err
	}
	coding := resp.Header.Get("Content-Encoding")
	read, err := readObject(resp.Body, coding == "")
	putBack(resp, read, err)
	return x402.FromResponse(resp.Header, decoded(read, coding), extra...)
}

// takeIn reads a body that comes with the headers, as that beside a challenge mostly does: with HTTP/1
// the connection is free then, and takes the paid request.
func takeIn(resp *http.Response) {
	if resp.ContentLength <= 0 || resp.ContentLength > x402.MaxChallengeBytes || resp.Body == http.NoBody {
		return
	}
	read, err := io.ReadAll(resp.Body)
	putBack(resp, read, err)
}

// putBack puts what was read of a body in front of it. err is what reading it ended with.
func putBack(resp *http.Response, read []byte, err error) {
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failing{err}
	}
	resp.Body = rejoined{io.MultiReader(bytes.NewReader(read), rest), resp.Body}
}

// readObject reads as much as may be a challenge. A plain body that does not begin as a
// JSON object is none, and is not waited for: it may be a page, or a stream.
func readObject(body io.Reader, plain bool) ([]byte, error) {
	var b []byte
	for len(b) <= x402.MaxChallengeBytes {
		b = slices.Grow(b, 4<<10)
		n, err := body.Read(b[len(b):min(cap(b), x402.MaxChallengeBytes+1)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if text := bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\ufeff")), " \t\r\n"); plain && len(text) > 0 && text[0] != '{' {
			break
		}
	}
	return b, nil
}

// rejoined is a body with what was read of it in front again.
type rejoined struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// decoded undoes the seller's content coding, because a v1 challenge is in the body. If it cannot,
// it returns the body as it is, which is no challenge then.
func decoded(body []byte, coding string) []byte {
	plain, err := decoder(bytes.NewReader(body), strings.ToLower(strings.TrimSpace(coding)))
	if err != nil || plain == nil {
		return body
	}
	// Cut short it is too large for a challenge, which its reader says.
	out, err := io.ReadAll(io.LimitReader(plain, x402.MaxChallengeBytes+1))
	if err != nil && len(out) == 0 {
		return body
	}
	return out
}

func decoder(body io.Reader, coding string) (io.Reader, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	case "deflate": // zlib by the standard, bare deflate by some
		b, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		if r, err := zlib.NewReader(bytes.NewReader(b)); err == nil {
			return r, nil
		}
		return flate.NewReader(bytes.NewReader(b)), nil
	case "br":
		return brotli.NewReader(body), nil
	case "zstd":
		// Without concurrency nothing runs that would have to be closed.
		return zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(8<<20))
	}
	return nil, nil
}
