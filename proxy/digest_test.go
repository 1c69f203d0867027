package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
)

// A free answer costs no hash.
func TestFreeAnswersAreNotHashed(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), proxytest.NewSeller(t)
	for path, hashed := range map[string]bool{"/free": false, "/x": true} {
		call := NewCall(w.Key, "", "")
		resp, err := w.door.RoundTrip(proxytest.Request(t, "GET", s.URL+path, nil).WithContext(WithCall(t.Context(), call)))
		if err != nil {
			t.Fatal(err)
		}
		body, is := resp.Body.(*watched)
		if !is {
			t.Fatalf("%s: a body of %T", path, resp.Body)
		}
		if _, is := body.ReadCloser.(*digest); is != hashed {
			t.Errorf("%s: hashed %v", path, is)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		call.Finish(true)
	}
}

func BenchmarkDigest(b *testing.B) {
	const size = 1 << 20
	text := strings.Repeat("x", size)
	piece := make([]byte, 32<<10)
	for _, hashed := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "hashed"}[hashed], func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for range b.N {
				resp := &http.Response{StatusCode: http.StatusOK, ContentLength: size, Body: io.NopCloser(struct{ io.Reader }{strings.NewReader(text)})}
				if hashed {
					digestOf(resp)
				}
				_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, piece)
			}
		})
	}
}
