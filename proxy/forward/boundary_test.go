package forward

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// A library repeats an upload with a new boundary. It is the same request; another content is another one.
func TestUploadRepeatedWithAnotherBoundary(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, a way) {
		w := a.world(t)
		w.seller.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			if w.seller.Receipt(rw, n); n == 1 {
				rw.WriteHeader(http.StatusInternalServerError)
			}
		}
		w.seller.Reuse = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "again") }
		c := w.buyer()
		upload := func(boundary, content string) proxytest.Answer {
			body := fmt.Sprintf("--%s\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n%s\r\n--%[1]s--\r\n", boundary, content)
			r := proxytest.Request(t, "POST", w.shop("/upload"), strings.NewReader(body))
			r.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
			return w.do(c, r)
		}
		first, again, other := upload("one", "RIFF"), upload("another", "RIFF"), upload("another", "WAVE")
		if id := first.Header.Get(proxy.HeaderPayment); id == "" || again.Text != "again" || again.Paid(t) != id || other.Header.Get(proxy.HeaderPayment) == id {
			t.Errorf("%d, %d %q, %d", first.StatusCode, again.StatusCode, again.Text, other.StatusCode)
		}
	})
}
