package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/mcpshop"
)

// openShop opens a shop of our own, which speaks every dialect and can fail.
func openShop(t testing.TB, o mcpshop.Options) (shop *mcpshop.Shop, url string) {
	t.Helper()
	o.Till = honest.Till{Facilitator: env.Money.FacilitatorURL(), Client: env.Money.Client()}
	o.PayTo = env.Money.PayTo
	shop = mcpshop.New(o)
	server := httptest.NewServer(shop)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return shop, server.URL
}

// dialectOf maps a dialect of the shop to the name that the payer of these tests has for it in a call of a tool.
var dialectOf = map[mcpshop.Dialect]dialect{
	mcpshop.X402: dialectX402, mcpshop.Text: dialectText, mcpshop.Extension: dialectX402, mcpshop.Unasked: dialectExtension,
	mcpshop.Cloudflare: dialectCloudflare, mcpshop.Vercel: dialectVercel, mcpshop.Error: dialectError, mcpshop.HTTP: dialectHTTP,
}

// rawClient is a client by hand, for what official ones cannot ask.
type rawClient struct {
	by           *http.Client
	url, session string
	modern       bool
	next         int
}

// connect begins a session, if the server wants one.
func connect(t testing.TB, by *http.Client, url string) *rawClient {
	t.Helper()
	c := &rawClient{by: by, url: endpoint(url)}
	got := c.ask(t, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`)
	if got.Status != http.StatusOK {
		t.Fatalf("initialize: %+v", got)
	}
	c.session = got.Header.Get("Mcp-Session-Id")
	return c
}

// ask sends a request with the next id.
func (c *rawClient) ask(t testing.TB, method, params string) process.Answer {
	t.Helper()
	c.next++
	return c.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.next, method, params),
		"Mcp-Method", method, "Mcp-Name", mcpshop.Tool)
}

// post sends a body. The answer of a connection that broke has the status 0.
func (c *rawClient) post(t testing.TB, body string, header ...string) process.Answer {
	t.Helper()
	header = append(header, "Accept", "application/json, text/event-stream")
	if c.session != "" {
		header = append(header, "Mcp-Session-Id", c.session)
	}
	if c.modern {
		header = append(header, "Mcp-Protocol-Version", mcpshop.Modern)
	}
	got, err := process.Ask(t.Context(), c.by, "POST", c.url, body, header...)
	if err != nil {
		t.Logf("%v", err)
	}
	return got
}

func forCity(city string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"city":%q},"_meta":{"progressToken":1}}`, mcpshop.Tool, city)
}

// The shop asks in each dialect, takes the payment, and delivers: the four numbers are the same.
func TestShop(t *testing.T) {
	t.Parallel()
	for _, d := range mcpshop.Dialects() {
		for name, o := range map[string]mcpshop.Options{
			"json":         {},
			"json session": {Sessions: true, Gzip: true},
			"stream":       {Stream: true, Progress: true, Gzip: true},
			"events":       {Stream: true, Sessions: true, Events: true},
			"modern":       {Modern: true, Stream: true},
		} {
			t.Run(string(d)+" "+name, func(t *testing.T) {
				t.Parallel()
				o.Dialect = d
				shop, url := openShop(t, o)
				city, p := newCity(), newPayer(t)
				w := newWire(t, url, p.paying)
				var c *rawClient
				if c = (&rawClient{by: direct, url: endpoint(w.URL), modern: true}); !o.Modern {
					c = connect(t, direct, w.URL)
				}
				got := c.ask(t, "tools/call", forCity(city))
				if !strings.Contains(got.Body, `"sunny in `+city+`"`) || !strings.Contains(got.Body, `payment-response"`) {
					t.Fatalf("%+v", got)
				}
				if n := env.debits(t, p.wallet, env.Money.PayTo); n != 1 || shop.Runs(city) != 1 {
					t.Errorf("%d debits, %d runs", n, shop.Runs(city))
				}
				calls := w.calls()
				if len(calls) != 2 {
					t.Fatalf("%d calls", len(calls))
				}
				if d == mcpshop.HTTP {
					if calls[0].Status != http.StatusPaymentRequired {
						t.Errorf("status %d", calls[0].Status)
					}
					return
				}
				requireChallenge(t, calls[0], dialectOf[d], env.Money.PayTo)
			})
		}
	}
}

// Resources and prompts cost money too, where the dialect has a place for the terms.
func TestShopSellsResourcesAndPrompts(t *testing.T) {
	t.Parallel()
	for _, d := range mcpshop.Dialects() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			shop, url := openShop(t, mcpshop.Options{Dialect: d})
			c, city := connect(t, direct, url), newCity()
			for method, params := range map[string]string{
				"resources/read": fmt.Sprintf(`{"uri":"%s%s"}`, mcpshop.Resource, city),
				"prompts/get":    fmt.Sprintf(`{"name":%q,"arguments":{"city":%q}}`, mcpshop.Prompt, city),
			} {
				if got := c.ask(t, method, params); d != mcpshop.HTTP && !strings.Contains(got.Body, `"accepts"`) || shop.Runs(city) != 0 {
					t.Errorf("%s: %+v", method, got)
				}
			}
		})
	}
}

// Each fault shows, and the money moves if it says so: to a payer that pays what it is asked once, and looks no further.
func TestShopFails(t *testing.T) {
	t.Parallel()
	slow := []string{"no end", "settles, hangs"} // a caller must leave
	for _, f := range mcpshop.Faults() {
		for _, stream := range []bool{false, true} {
			if slices.Contains(slow, f.Name) {
				continue
			}
			t.Run(fmt.Sprintf("%s, stream %v", f.Name, stream), func(t *testing.T) {
				t.Parallel()
				shop, url := openShop(t, mcpshop.Options{Stream: stream, Sessions: true})
				city, p := newCity(), newPayer(t)
				w := newWire(t, url, p.paying)
				c := connect(t, direct, w.URL)
				shop.Meet(f)
				if f.On == mcpshop.Notified {
					got := c.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
					if !strings.Contains(got.Body, `"accepts"`) {
						t.Errorf("%+v", got)
					}
					return
				}
				got := c.ask(t, "tools/call", forCity(city))
				if met := shop.Met(); len(met) != 1 || met[0] != f.Name {
					t.Errorf("met %q", met)
				}
				if debits := env.debits(t, p.wallet, env.Money.PayTo); f.On == mcpshop.Paid && (debits == 1) != f.Moves {
					t.Errorf("%d debits: %+v", debits, got)
				}
				delivered := strings.Contains(got.Body, "sunny in "+city) && f.Name != "settles, other id"
				if f.On == mcpshop.Paid && delivered != f.Delivers {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// A stream that breaks after the payment can be taken up again.
func TestShopResumes(t *testing.T) {
	t.Parallel()
	shop, url := openShop(t, mcpshop.Options{Stream: true, Sessions: true, Events: true})
	city, p := newCity(), newPayer(t)
	c := connect(t, direct, newWire(t, url, p.paying).URL)
	shop.Meet(mcpshop.FaultNamed("settles, cuts"))
	got := c.ask(t, "tools/call", forCity(city))
	id, _, found := strings.Cut(strings.TrimPrefix(got.Body, "id: "), "\n")
	if !found || strings.Contains(got.Body, "sunny") {
		t.Fatalf("%+v", got)
	}
	again, err := process.Ask(t.Context(), direct, "GET", c.url, "", "Last-Event-ID", id, "Mcp-Session-Id", c.session)
	if err != nil || !strings.Contains(again.Body, "sunny in "+city) {
		t.Fatalf("%v: %+v", err, again)
	}
	if n := env.debits(t, p.wallet, env.Money.PayTo); n != 1 {
		t.Errorf("%d debits", n)
	}
}

// Batches are answered as lists, as the protocol of 2025-03-26 has them.
func TestShopAnswersBatches(t *testing.T) {
	t.Parallel()
	_, url := openShop(t, mcpshop.Options{})
	c := connect(t, direct, url)
	got := c.post(t, `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+forCity(newCity())+`},`+
		`{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	var list []message
	if err := json.Unmarshal([]byte(got.Body), &list); err != nil || len(list) != 2 {
		t.Fatalf("%v: %+v", err, got)
	}
	if _, _, found := list[0].terms(); !found {
		t.Errorf("%+v", got)
	}
}
