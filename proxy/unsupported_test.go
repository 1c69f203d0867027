package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
)

// An unsupported requirement is called that, with what does not fit. No client is told to create a
// wallet where none can be created.
func TestUnsupportedNamesWhat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change map[string]any
		reason string
		detail string
	}{
		"network":          {map[string]any{"network": "solana"}, DeclinedUnsupported, "unsupported network solana: purser cannot pay on it, so no wallet can be created there. It pays on base"},
		"network not set":  {map[string]any{"network": "polygon"}, DeclinedUnsupported, "unsupported network polygon: purser is not set to pay on it (PURSER_NETWORKS), so no wallet can be created there. It pays on base"},
		"scheme":           {map[string]any{"scheme": "batch-settlement"}, DeclinedUnsupported, "unsupported scheme batch-settlement"},
		"method":           {map[string]any{"extra": map[string]any{"assetTransferMethod": "erc7710"}}, DeclinedUnsupported, "unsupported scheme exact: asset transfer method erc7710"},
		"asset":            {map[string]any{"asset": "0x2222222222222222222222222222222222222222"}, DeclinedUnsupported, "unsupported asset 0x2222222222222222222222222222222222222222: not a known token of base"},
		"nothing readable": {map[string]any{"payTo": 5}, DeclinedUnreadable, "no usable payment requirement: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
				s.V1 = true
				s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
					var body map[string]any
					if err := json.Unmarshal(proxytest.V1Challenge(s.Price, "http://"+r.Host+r.URL.Path, ""), &body); err != nil {
						t.Error(err)
					}
					for member, value := range c.change {
						body["accepts"].([]any)[0].(map[string]any)[member] = value
					}
					rw.Header().Set("Content-Type", "application/json")
					rw.WriteHeader(http.StatusPaymentRequired)
					_ = json.NewEncoder(rw).Encode(body)
				}
			})
			a := w.get(s.URL + "/x")
			if got := a.Header.Get(HeaderDetail); a.StatusCode != 402 || a.Header.Get(HeaderDeclined) != c.reason || !strings.HasPrefix(got, c.detail) {
				t.Errorf("%d %q: %q", a.StatusCode, a.Header.Get(HeaderDeclined), got)
			}
		})
	}
}
