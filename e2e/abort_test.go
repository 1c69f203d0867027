package e2e

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// aborter is a seller whose paid work never succeeds. It sends the real seller's challenge, and
// hangs up on every payment.
type aborter struct {
	site
	mu       sync.Mutex
	payments map[string][]string // by the request's query, as they came
}

func startAborter(t *testing.T, s seller) *aborter {
	t.Helper()
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	a := &aborter{payments: map[string][]string{}}
	behind := &httputil.ReverseProxy{Transport: &http.Transport{DisableKeepAlives: true}, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(to)
		p.Out.Host = p.In.Host
	}}
	a.site = startSite(t, nameOther, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !paidRequest(r, nil) {
			behind.ServeHTTP(w, r)
			return
		}
		a.mu.Lock()
		a.payments[r.URL.RawQuery] = append(a.payments[r.URL.RawQuery], r.Header.Get(x402.HeaderSignature)+r.Header.Get(x402.HeaderV1Payment))
		a.mu.Unlock()
		panic(http.ErrAbortHandler)
	}))
	return a
}

// came returns how many payments came with a query, and how many of them are distinct.
func (a *aborter) came(query string) (all, distinct int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := slices.Sorted(slices.Values(a.payments[query]))
	return len(list), len(slices.Compact(list))
}

// persistent are clients that do not take no for an answer. Each makes one request, as often as it likes.
func persistent() map[string]func(t *testing.T, base, query string) []string {
	return map[string]func(t *testing.T, base, query string) []string{
		"once": func(_ *testing.T, base, query string) []string {
			return []string{"curl", "-sS", "-m", "60", "-o", "/dev/null", base + "/paid?" + query}
		},
		"curl --retry": func(_ *testing.T, base, query string) []string {
			return []string{
				"curl", "-sS", "-m", "60", "-o", "/dev/null", "-f", "--retry", "2", "--retry-all-errors", "--retry-delay", "1", base + "/paid?" + query,
			}
		},
		"urllib3 Retry": func(t *testing.T, base, query string) []string {
			requireModule(t, "requests")
			return []string{python(), filepath.Join("agents", "retry.py"), base + "/echo?" + query}
		},
	}
}

// A seller that hangs up on every payment sees one and the same payment, through every door. It
// does not matter who repeats: the client, Caddy, or purser's own transport. Nothing was settled,
// and nothing is paid.
func TestAbortingSellerSeesOnePayment(t *testing.T) {
	t.Parallel()
	atV2, atV1 := startAborter(t, env.v2), startAborter(t, env.v1)
	d := startDoors(t, atV2.site)
	check := func(t *testing.T, a *aborter, p *payer, query string, cmd *exec.Cmd) {
		t.Helper()
		out, err := cmd.CombinedOutput() // most of these programs fail, as they should
		if all, distinct := a.came(query); distinct != 1 {
			t.Errorf("%d payments came, %d distinct: %v %s", all, distinct, err, out)
		} else {
			t.Logf("one payment, %d times", all)
		}
		list := slices.DeleteFunc(p.payments(t, "?limit=500"), func(one payment) bool { return !strings.HasSuffix(one.RequestURL, query) })
		if len(list) != 1 || list[0].State != "open" {
			t.Errorf("payments %+v, want one that is open", list)
		}
		if moved := env.paid(t, p.wallet); len(moved) != 0 {
			t.Errorf("paid %+v", moved)
		}
	}
	for clientName, client := range persistent() {
		for _, scheme := range schemes {
			for sellerName, a := range map[string]*aborter{"v2": atV2, "v1": atV1} {
				t.Run("proxy "+scheme+" "+sellerName+" "+clientName, func(t *testing.T) {
					t.Parallel()
					payer := sharedPurser(t).newPayer(t)
					query := url.Values{"proxy": {scheme}, "client": {clientName}}.Encode()
					check(t, a, payer, query, payer.execCommand(t, nil, client(t, a.url(scheme), query)...))
				})
			}
			for _, way := range []string{viaTransport, viaRetries, viaSidecar} {
				t.Run(way+" "+scheme+" "+clientName, func(t *testing.T) {
					t.Parallel()
					query := url.Values{way: {scheme}, "client": {clientName}}.Encode()
					command := client(t, d.base(way, scheme), query)
					cmd := exec.Command(command[0], command[1:]...)
					cmd.Env = process.Environment()
					check(t, atV2, d.payer, query, cmd)
				})
			}
		}
	}
}
