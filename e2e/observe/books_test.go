package observe

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// balance returns the wallet's balance at the token contract, in the smallest unit.
func (s *sandbox) balance() int64 {
	s.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":%q,"data":"0x70a08231%064s"},"latest"]}`, // balanceOf
		s.Token, strings.TrimPrefix(s.Wallet, "0x"))
	a := s.send(direct(), http.MethodPost, s.RPC, body)
	var answer struct{ Result string }
	if err := json.Unmarshal([]byte(a.Body), &answer); err != nil {
		s.t.Fatalf("%v: %s", err, a.Body)
	}
	have, ok := new(big.Int).SetString(strings.TrimPrefix(answer.Result, "0x"), 16)
	if !ok {
		s.t.Fatalf("balance: %s", a.Body)
	}
	return have.Int64()
}

// booked is the sum and number of the key's spend events.
func (s *sandbox) booked() (sum int64, n int) {
	s.t.Helper()
	a := s.send(direct(), http.MethodGet, s.API+"/v1/spend?limit=500", "", "X-Api-Key", s.Key)
	var spend struct{ Events []struct{ Amount string } }
	if err := json.Unmarshal([]byte(a.Body), &spend); err != nil || a.Status != http.StatusOK {
		s.t.Fatalf("%v: %d %s", err, a.Status, a.Body)
	}
	for _, e := range spend.Events {
		v, err := strconv.ParseInt(e.Amount, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		sum += v
	}
	return sum, len(spend.Events)
}

// The counters, the events and the token's contract agree on what was spent, over a reload too.
func TestMetricsAgreeWithTheBooksAndTheChain(t *testing.T) {
	t.Parallel()
	s := startSandbox(t)
	metered := func() (sum, n float64) {
		for series, v := range s.scrape().values {
			switch {
			case strings.HasPrefix(series, "purser_settled_amount_total{"):
				sum += v
			case strings.HasPrefix(series, "purser_payments_total{") && strings.Contains(series, `outcome="settled"`):
				n += v
			}
		}
		return sum, n
	}
	held := s.balance()
	sum0, n0 := s.booked()
	msum0, mn0 := metered()
	agent := s.proxied(s.Key, "nightly")
	const rounds = 5
	for i := range rounds {
		if a := s.pay(fmt.Sprintf("/prepaid?%d", i)); a.Status != http.StatusOK {
			t.Fatalf("POST /v1/pay: %d %s", a.Status, a.Body)
		}
		for _, target := range []string{s.Seller, s.SellerTLS} {
			if a := s.send(agent, http.MethodGet, fmt.Sprintf("%s/weather?%d", target, i), ""); a.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", target, a.Status, a.Body)
			}
		}
		s.send(agent, http.MethodGet, s.Seller+"/report", "") // too dear
		if i == rounds/2 {
			s.configure(http.MethodPost, "/apps/http/servers/purser/routes/0/handle/2/key_rate", -1) // reloads
		}
	}
	eventually(t, "counters, events and the token agree", func() bool {
		sum, n := s.booked()
		msum, mn := metered()
		return n-n0 == 3*rounds && int64(msum-msum0) == sum-sum0 && int(mn-mn0) == n-n0 && held-s.balance() == sum-sum0
	})
	sum, _ := s.booked()
	if sum == sum0 {
		t.Error("nothing was spent")
	}
}
