package caddymodule

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// inventive is a seller and a facilitator that make up something else each time.
func inventive(t *testing.T) (port int, facilitator *httptest.Server) {
	t.Helper()
	var n atomic.Int64
	word := func() string { return fmt.Sprint("made-up-", n.Add(1)) }
	offer := func(w http.ResponseWriter, field, real string) {
		plain, _ := base64.StdEncoding.DecodeString(challenge(1))
		text := strings.Replace(string(plain), real, word(), 1)
		w.Header().Set(x402.HeaderRequired, base64.StdEncoding.EncodeToString([]byte(text)))
		w.Header().Set(field, word())
		w.WriteHeader(http.StatusPaymentRequired)
	}
	seller := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := n.Add(1)
		switch paid := r.Header.Get(x402.HeaderSignature) != ""; {
		case paid && i%3 == 0:
			offer(w, proxy.HeaderDeclined, "Payment required")
			return
		case paid && i%3 == 1:
			w.Header().Set(x402.HeaderResponse, base64.StdEncoding.EncodeToString(fmt.Appendf(nil,
				`{"success":true,"network":"eip155:8453","transaction":"0x%064x"}`, i)))
			fmt.Fprint(w, word())
			return
		case paid:
			proxytest.HangUp(w)
			return
		case i%7 == 1:
			offer(w, proxy.HeaderError, "exact")
		case i%7 == 2:
			offer(w, proxy.HeaderPayment, "eip155:8453")
		case i%7 == 3:
			w.Header().Set(proxy.HeaderDeclined, word())
			w.WriteHeader(200 + int(i%700))
		case i%7 == 4:
			w.Header().Set(proxy.HeaderError, word())
			w.Header().Set(proxy.HeaderPayment, word())
			w.WriteHeader(200 + int(i%700))
		default:
			offer(w, "X-Made-Up", "Payment required")
		}
	}))
	all, err := net.Listen("tcp", "0.0.0.0:0") //nolint:gosec // it has as many names as there are loopback addresses
	if err != nil {
		t.Fatal(err)
	}
	_ = seller.Listener.Close()
	seller.Listener = all
	seller.Start()
	t.Cleanup(seller.Close)
	facilitator = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if i := n.Add(1); i%2 == 0 {
			fmt.Fprintf(w, `{"isValid":false,"success":false,"kinds":[],"invalidReason":%q,"errorReason":%q}`, word(), word())
		} else {
			fmt.Fprintf(w, `{"isValid":true,"success":true,"kinds":[],"transaction":"0x%064x","network":%q}`, i, word())
		}
	}))
	t.Cleanup(facilitator.Close)
	return all.Addr().(*net.TCPAddr).Port, facilitator
}

// Thousands of hosts, methods, paths, tasks, keys, networks, schemes, reasons, statuses and headers that clients, sellers
// and facilitators make up make no
// series, after a few that purser has names for itself.
func TestLabelsAreBounded(t *testing.T) {
	port, f := inventive(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	t.Setenv("PURSER_KEY", "pk_deployment")
	t.Setenv("PURSER_DAILY_BUDGET", "off")
	s := newSite(t)
	side, observed := freePort(t), freePort(t)
	s.route = "purser_proxy\n\t\tpurser_api"
	mustLoad(t, s.caddyfile()+fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\tpurser_upstream {\n\t\tto http://127.0.0.1:%d\n\t}\n}\n"+
		"http://:%d {\n\tbind 127.0.0.1\n\tmetrics /metrics\n}\n", side, port, observed))
	key := newKey(t, s.url())

	ask := func(by *http.Client, method, target, body string, headers ...string) {
		r := newRequest(t, method, target, strings.NewReader(body), headers...)
		if resp, err := by.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	plain := newClient(t)
	one := func(i int) {
		word := fmt.Sprint("made-up-", i)
		host := fmt.Sprintf("127.%d.%d.%d:%d", i>>16+1, i>>8&255, i&255, port)
		agent := s.through(t, url.UserPassword(key, word))
		ask(agent, "GET", "http://"+host+"/"+word+"?"+word, "")
		ask(agent, fmt.Sprint("MADEUP", i), "http://"+host+"/"+word, word, "Idempotency-Key", word)
		ask(s.through(t, url.UserPassword("pk_"+word, word)), "GET", "http://"+host+"/", "")
		ask(plain, fmt.Sprint("MADEUP", i), fmt.Sprintf("http://127.0.0.1:%d/%s", side, word), "", "User-Agent", word)
		ask(plain, "GET", fmt.Sprintf("http://127.0.0.1:%d/%s", side, word), "", "Host", word+".localhost")
		ask(plain, fmt.Sprint("MADEUP", i), s.url()+"/"+word, word)
		ask(plain, "POST", s.url()+"/wallets", fmt.Sprintf(`{"network":%q}`, word), "X-Api-Key", key)
		ask(plain, "POST", s.url()+"/v1/pay", fmt.Sprintf(`{"paymentRequiredHeader":%q,"requestUrl":"https://%s.example.com/","idempotencyKey":%q,"settlement":%q}`,
			challenge(1), word, word, []string{"payer", "seller", word}[i%3]), "X-Api-Key", key)
	}
	many := func(from, to int) {
		var workers sync.WaitGroup
		next := make(chan int)
		for range 8 {
			workers.Go(func() {
				for i := range next {
					one(i)
				}
			})
		}
		for i := from; i < to; i++ {
			next <- i
		}
		close(next)
		workers.Wait()
	}
	series := func() map[string]bool {
		_, _, text := get(t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/metrics", observed))
		all := map[string]bool{}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "purser_") {
				name := line[:strings.LastIndexByte(line, ' ')]
				all[name] = true
				if low := strings.ToLower(name); strings.Contains(low, "made") || strings.Contains(low, "127.") || strings.Contains(low, "pk_") {
					t.Errorf("what others made up is in the metrics: %s", name)
				}
			}
		}
		return all
	}
	many(0, 100)
	eventually(t, "what is read in the background is there", func() bool { return series()["purser_quota_used_ratio"] })
	few := series()
	many(100, 400)    // of eight requests each, with several words in each
	var late []string // such as the first 429, when the month's payments are used up
	for name := range series() {
		if !few[name] {
			late = append(late, name)
		}
	}
	if len(late) > 5 || len(few) > 500 { // other tests of the process have series, too
		t.Errorf("%d series, and new ones: %q", len(few), late)
	}
	for _, name := range []string{
		`purser_proxy_requests_total{door="proxy",result="declined"}`, `purser_proxy_requests_total{door="proxy",result="paid"}`,
		`purser_proxy_requests_total{door="transport",result="declined"}`, `purser_facilitator_requests_total{call="verify",result="refused"}`,
		`purser_proxy_requests_total{door="proxy",result="unanswered"}`, `purser_payments_total{network="base",outcome="refused",protocol="x402",rail="eip3009",settlement="payer"}`,
	} {
		if v, ok := scrape(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", observed), name); !ok || v < 1 {
			t.Errorf("%s is %g, so this proves little", name, v)
		}
	}
	t.Logf("%d series", len(few))
}
