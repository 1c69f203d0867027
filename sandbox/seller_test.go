package sandbox

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

func TestBuyEverything(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	var all sync.WaitGroup // all at once, because they can share blocks
	for _, test := range []struct {
		method, path, body string
		price              uint64
		want               string
	}{
		{"GET", "/weather", "", 10_000, `"sky":"clear"`},
		{"GET", "/weather?city=Lisbon&days=2", "", 10_000, `"sky":"clear"`},
		{"POST", "/echo", "a body of text", 10_000, "a body of text"},
		{"GET", "/stream?events=3&interval=1ms", "", 20_000, `data: {"event":3,"of":3}`},
		{"GET", "/report", "", 2_500_000, "expensive"},
		{"GET", "/v1/weather", "", 10_000, `"sky":"clear"`},
	} {
		for _, origin := range []string{w.SellerURL(), w.SellerTLSURL(), w.SellerDirectURL()} {
			all.Go(func() {
				t.Run(test.path+" at "+origin, func(t *testing.T) {
					b := newBuyer(t, w, 3_000_000)
					url := origin + test.path
					first := request(t, w, test.method, url, test.body, nil)
					c := first.challenge(t)
					resource := c.ResourceURL
					if c.Version == 1 {
						resource = c.Accepts[0].Resource
					}
					if first.header.Get("Cache-Control") != "no-store" || resource != url || c.Error == "" || c.Accepts[0].Amount != money.New(test.price) {
						t.Errorf("challenge %+v, %v", c, first.header)
					}
					wantBalance(t, w, b.address, 3_000_000)

					p := b.pay(t, c)
					paid := request(t, w, test.method, url, test.body, &p)
					if paid.status != http.StatusOK || !strings.Contains(paid.body, test.want) {
						t.Fatalf("paid: %d %s", paid.status, paid.body)
					}
					r := paid.receipt(t)
					if !r.Success || !x402.ValidTransaction(r.Transaction) || r.Payer != b.address.String() || !x402.SameNetwork(r.Network, "base") {
						t.Errorf("receipt %+v", r)
					}
					if paid.header.Get("Cache-Control") != "private" {
						t.Errorf("paid answer may be cached: %v", paid.header)
					}
					wantBalance(t, w, b.address, 3_000_000-test.price)

					again := request(t, w, test.method, url, test.body, &p)
					if again.status != http.StatusPaymentRequired {
						t.Fatalf("the same payload again: %d %s", again.status, again.body)
					}
					if c.Accepts[0].PaymentFlow == "upfront" {
						if r := again.receipt(t); r.Success || r.ErrorReason != honest.NonceUsed || again.header.Get(x402.HeaderRequired) != "" {
							t.Errorf("again: %+v, %v", r, again.header)
						}
					} else if c := again.challenge(t); c.Error != honest.NonceUsed {
						t.Errorf("again: %q", c.Error)
					}
					wantBalance(t, w, b.address, 3_000_000-test.price)
				})
			})
		}
	}
	all.Wait()
}

// The body comes back byte for byte, with its type.
func TestEcho(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	b := newBuyer(t, w, 20_000)
	body := strings.Repeat("all work and no play ", 100_000)
	p := b.pay(t, request(t, w, "POST", w.SellerURL()+"/echo", "", nil).challenge(t))
	got := request(t, w, "POST", w.SellerURL()+"/echo", body, &p)
	if got.status != http.StatusOK || got.body != body || got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("status %d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	// A buyer is not charged for an error.
	url := w.SellerURL() + "/echo?status=503"
	p = b.pay(t, request(t, w, "POST", url, "", nil).challenge(t))
	got = request(t, w, "POST", url, "x", &p)
	if got.status != 503 || got.header.Get(x402.HeaderResponse) != "" || got.body != "x" {
		t.Errorf("an error: %d %v %q", got.status, got.header, got.body)
	}
	wantBalance(t, w, b.address, 10_000)
}

// Many requests send one payload at the same time. There is one answer with goods, and one
// transfer.
func TestConcurrentSends(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	b := newBuyer(t, w, 1_000_000)
	p := b.pay(t, offered(t, w, 2))
	statuses := make([]int, 8)
	var sends sync.WaitGroup
	for i := range statuses {
		sends.Go(func() { statuses[i] = request(t, w, "GET", w.SellerURL()+"/weather", "", &p).status })
	}
	sends.Wait()
	paid := 0
	for _, status := range statuses {
		if status == http.StatusOK {
			paid++
		} else if status != http.StatusPaymentRequired {
			t.Errorf("status %d", status)
		}
	}
	if paid != 1 {
		t.Errorf("%d answers for one payment: %v", paid, statuses)
	}
	wantBalance(t, w, b.address, 990_000)
}

func TestPrepaid(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	b := newBuyer(t, w, 1_000_000)
	url := w.SellerURL() + "/prepaid"
	c := request(t, w, "GET", url, "", nil).challenge(t)
	a := b.authorize(t, c.Accepts[0])
	p := b.sign(t, c, a)
	if got := request(t, w, "GET", url, "", &p).challenge(t); got.Error != notSettled {
		t.Errorf("not settled: %q", got.Error)
	}
	if _, verdict := facilitate(t, w, "/settle", callBody(t, p, c.Accepts[0])); verdict["success"] != true {
		t.Fatalf("%v", verdict)
	}
	// A party that only saw the payment on the chain gets nothing.
	thief := newBuyer(t, w, 0).sign(t, c, a)
	if got := request(t, w, "GET", url, "", &thief).challenge(t); got.Error != honest.BadSignature {
		t.Errorf("stolen: %q", got.Error)
	}
	got := request(t, w, "GET", url, "", &p)
	if got.status != http.StatusOK || !got.receipt(t).Success || !x402.ValidTransaction(got.receipt(t).Transaction) {
		t.Errorf("settled: %d %s", got.status, got.body)
	}
	if got := request(t, w, "GET", url, "", &p).challenge(t); got.Error != alreadyDelivered {
		t.Errorf("once more: %q", got.Error)
	}
	wantBalance(t, w, b.address, 990_000)
}

func TestWhatDoesNotMatchIsNotTaken(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	b := newBuyer(t, w, 10_000_000)
	cheap, dear := offered(t, w, 2), request(t, w, "GET", w.SellerURL()+"/report", "", nil).challenge(t)

	// A payment of a cent for a dearer good, and bytes that are no payment, buy nothing.
	p := b.pay(t, cheap)
	if got := request(t, w, "GET", w.SellerURL()+"/report", "", &p).challenge(t); got.Error != noMatch {
		t.Errorf("another price: %q", got.Error)
	}
	forged := dear
	forged.Accepts = append([]x402.Requirement{}, dear.Accepts...)
	a := b.authorize(t, dear.Accepts[0])
	a.Value = money.New(1)
	p = b.sign(t, forged, a)
	if got := request(t, w, "GET", w.SellerURL()+"/report", "", &p).challenge(t); got.Error != honest.BadValueV2 {
		t.Errorf("another value: %q", got.Error)
	}
	for _, junk := range []x402.Payload{{Version: 2, JSON: []byte(`{}`)}, {Version: 2, JSON: []byte(`x`)}, {Version: 2, JSON: []byte(`{"x402Version":1}`)}} {
		if got := request(t, w, "GET", w.SellerURL()+"/weather", "", &junk).challenge(t); got.Error != "Payment required" {
			t.Errorf("%s: %q", junk.JSON, got.Error)
		}
	}
	wantBalance(t, w, b.address, 10_000_000)

	// extra may hold more than the requirement.
	more := offered(t, w, 2)
	more.Accepts[0].Raw = []byte(strings.Replace(string(more.Accepts[0].Raw), `"extra":{`, `"extra":{"more":1,`, 1))
	p = b.pay(t, more)
	if got := request(t, w, "GET", w.SellerURL()+"/weather", "", &p); got.status != http.StatusOK {
		t.Errorf("more in extra: %d %s", got.status, got.body)
	}
}

func TestSellerWithoutFacilitator(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	b := newBuyer(t, w, 1_000_000)
	c, upfront := offered(t, w, 2), request(t, w, "GET", w.SellerURL()+"/stream", "", nil).challenge(t)
	if err := w.facilitator.Close(); err != nil {
		t.Fatal(err)
	}
	for path, challenge := range map[string]x402.Challenge{"/weather": c, "/stream": upfront} {
		p := b.pay(t, challenge)
		got := request(t, w, "GET", w.SellerURL()+path, "", &p)
		if got.status != http.StatusBadGateway || got.header.Get(x402.HeaderRequired) != "" || got.header.Get(x402.HeaderResponse) != "" {
			t.Errorf("%s: %d %v %s", path, got.status, got.header, got.body)
		}
	}
	if got := request(t, w, "GET", w.SellerURL()+"/free", "", nil); got.status != http.StatusOK {
		t.Errorf("/free: %d", got.status)
	}
	if got := request(t, w, "GET", w.SellerURL()+"/", "", nil); got.status != http.StatusOK || !strings.Contains(got.body, "/weather") {
		t.Errorf("/: %d %s", got.status, got.body)
	}
	if got := request(t, w, "GET", w.SellerURL()+"/nothing", "", nil); got.status != http.StatusNotFound {
		t.Errorf("/nothing: %d", got.status)
	}
}

func TestWorldLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := start(t, Options{})
	text, err := os.ReadFile(w.CA())
	if err != nil || !strings.HasPrefix(string(text), "-----BEGIN CERTIFICATE-----") {
		t.Errorf("%s: %v", text, err)
	}
	// A client that does not know the authority rejects the TLS seller.
	if resp, err := http.Get(strings.Replace(w.SellerTLSURL(), SellerTLSName, SellerIP, 1) + "/free"); err == nil {
		resp.Body.Close()
		t.Error("trusted without the authority")
	}
	dir := w.dir
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestPortsInUse(t *testing.T) {
	t.Parallel()
	for _, port := range []int{-1, 65535, 65530} {
		if w, err := Start(t.Context(), Options{Port: port}); err == nil {
			t.Errorf("port %d was taken", port)
			w.Close()
		}
	}
	w := start(t, Options{})
	if other, err := Start(t.Context(), Options{Port: w.seller.Port - sellerOffset}); err == nil {
		other.Close()
		t.Error("two worlds on one port")
	} else if !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
}
