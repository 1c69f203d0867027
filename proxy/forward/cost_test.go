//go:build unix

package forward

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// A seller chooses the size of its 402, and must not choose the CPU that purser needs for it. Package
// pay tries more such challenges.
func TestNo402IsCostly(t *testing.T) { //nolint:paralleltest // it looks at the CPU of the process
	w, s := newWorld(t), proxytest.NewSeller(t)
	entry := `{"scheme":"exact","network":"eip155:8453","amount":"0","asset":"` + proxytest.USDCAddress + `","payTo":"` + proxytest.SellerAddress +
		`","maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}`
	pattern, _ := json.Marshal(strings.Repeat(".{0,999}", 15))
	text := `{"x402Version":2,"error":"","resource":{"url":"http://x/"},"accepts":[` + strings.Repeat(entry+",", 63) + entry +
		`],"extensions":{"payment-identifier":{"info":{"required":false},"schema":{"type":"object","properties":{"id":{"type":"string","pattern":` +
		string(pattern) + `}}}}}}`
	s.Challenge = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(x402.HeaderRequired, base64.StdEncoding.EncodeToString([]byte(text)))
		rw.WriteHeader(http.StatusPaymentRequired)
	}
	cpu := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	each := time.Hour
	for range 3 {
		before := cpu()
		w.get(s.URL+"/x").Declined(t, "amount", true)
		each = min(each, cpu()-before) // what else is at work is not the 402's
	}
	if each > 50*time.Millisecond {
		t.Errorf("one 402 of %d bytes costs %s of CPU", len(text), each)
	}
}
