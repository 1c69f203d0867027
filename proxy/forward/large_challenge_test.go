package forward

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// largeChallenges lists challenges that are large because of what buys nothing, by the change to a small one.
func largeChallenges() map[string]func(challenge, entry map[string]any) {
	words := func(n int) string { return strings.Repeat("All prices of the exchange. ", n/28) }
	properties := make(map[string]any)
	for i := range 200 {
		properties[fmt.Sprint("field", i)] = map[string]any{"type": "string", "description": words(80)}
	}
	return map[string]func(challenge, entry map[string]any){
		"schema": func(c, _ map[string]any) {
			c["extensions"] = map[string]any{"bazaar": map[string]any{"info": map[string]any{"method": "GET"}, "schema": map[string]any{"properties": properties}}}
		},
		"info": func(c, _ map[string]any) {
			c["extensions"] = map[string]any{"bazaar": map[string]any{"info": map[string]any{"example": properties}}}
		},
		"description": func(c, _ map[string]any) { c["resource"].(map[string]any)["description"] = words(12 << 10) },
		"icon": func(c, _ map[string]any) {
			c["resource"].(map[string]any)["iconUrl"] = "data:image/png;base64," + words(12<<10)
		},
		"accepts": func(c, entry map[string]any) {
			var list []any
			for i := range 60 {
				other := map[string]any{"network": fmt.Sprint("eip155:", 900_001+i)}
				for k, v := range entry {
					if k != "network" {
						other[k] = v
					}
				}
				list = append(list, other)
			}
			c["accepts"] = append(list, entry)
		},
		"output of version 1": func(_, entry map[string]any) {
			entry["outputSchema"], entry["description"] = map[string]any{"output": properties}, words(9<<10)
		},
	}
}

// A challenge is paid whatever it describes at length. Its payload echoes no more of extensions than the infos,
// and a repeat sends the same one.
func TestLargeChallenge(t *testing.T) {
	t.Parallel()
	for name, change := range largeChallenges() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := proxytest.NewSeller(t, func(s *proxytest.Seller) { s.V1 = strings.HasSuffix(name, "1") })
			s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
				text := proxytest.V1Challenge("5", "http://"+r.Host+r.URL.Path, "")
				if !s.V1 {
					text, _ = base64.StdEncoding.DecodeString(proxytest.V2Challenge("5", "http://"+r.Host+r.URL.Path, ""))
				}
				var challenge map[string]any
				_ = json.Unmarshal(text, &challenge)
				change(challenge, challenge["accepts"].([]any)[0].(map[string]any))
				text, _ = json.Marshal(challenge)
				if !s.V1 {
					rw.Header().Set(x402.HeaderRequired, base64.StdEncoding.EncodeToString(text))
					text = nil
				}
				rw.WriteHeader(http.StatusPaymentRequired)
				_, _ = rw.Write(text)
			}
			s.LoseAnswers(1)
			if a := w.get(s.URL + "/x"); a.StatusCode != http.StatusBadGateway {
				t.Fatalf("%d %s", a.StatusCode, a.Text)
			}
			id := w.get(s.URL + "/x").Paid(t)
			s.Expect(2, 2, 1)
			header := x402.HeaderSignature
			if s.V1 {
				header = x402.HeaderV1Payment
			}
			sent := s.Bought[0].Header.Get(header)
			payload, err := x402.DecodePayload(sent)
			if err != nil || sent != s.Bought[1].Header.Get(header) || len(sent) > 12<<10 || strings.Contains(string(payload.JSON), `"schema"`) {
				t.Errorf("sent %d and %d bytes, %v", len(sent), len(s.Bought[1].Header.Get(header)), err)
			}
			if p := w.Closed(id); p.State != pay.Settled || p.Offer.ResourceURL() != s.URL+"/x" {
				t.Errorf("in the books: %s, %q", p.State, p.Offer.ResourceURL())
			}
		})
	}
}
