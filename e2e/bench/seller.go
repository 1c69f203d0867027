package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/x402"
)

// price is the price of every good in the smallest unit of USDC: a hundredth of a cent.
const price = "100"

// seller is a paid API that accepts every payment header, a free one, and a facilitator that
// accepts every payload. The measured time is therefore the payer's. Paid requests carry a serial
// ?n=, and &m=1 when they count. By these the seller measures the gap between sending a challenge
// and getting the paid retry.
type seller struct {
	url    string
	server *http.Server
	done   chan struct{} // closed when it has stopped serving

	challenge string // value of PAYMENT-REQUIRED
	v1Body    []byte

	mu    sync.Mutex
	asked map[string]time.Time // serial → time of its challenge
	gaps  []time.Duration
}

const freeBody = `{"weather":"fair","wind":"calm","note":"nothing to pay here, and about as long as a small answer of an API is"}`

// startSeller starts the seller. It counts what it receives.
func startSeller(received *atomic.Int64) (*seller, error) {
	s := &seller{done: make(chan struct{}), asked: map[string]time.Time{}}
	if err := s.writeChallenges(); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + listener.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /paid", s.paid(false))
	mux.HandleFunc("GET /paid-v1", s.paid(true))
	mux.HandleFunc("GET /free", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, http.StatusOK, []byte(freeBody)) })
	mux.HandleFunc("POST /mcp", callFree)
	mux.HandleFunc("GET /supported", s.supported)
	mux.HandleFunc("POST /verify", s.verify)
	mux.HandleFunc("POST /settle", s.settle)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 20}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(countingListener{listener, received}) // until close; every call fails on a broken listener
	}()
	return s, nil
}

func (s *seller) close() {
	_ = s.server.Close() // only idle connections are left
	<-s.done
}

// writeChallenges makes the challenges of both protocol versions.
func (s *seller) writeChallenges() error {
	base, ok := x402.NetworkByWire("base")
	if !ok || len(base.Assets) == 0 {
		return errors.New("base is not a known network")
	}
	usdc := base.Assets[0]
	var payee [20]byte
	rand.Read(payee[:]) // cannot fail
	payTo := x402.EVMAddress(payee)
	extra := map[string]string{"name": usdc.Name, "version": usdc.Version}
	v2, err := json.Marshal(map[string]any{
		"x402Version": 2, "error": "Payment required",
		"resource": map[string]string{"url": "http://seller.example/paid", "description": "a report", "mimeType": "application/json"},
		"accepts": []any{map[string]any{
			"scheme": "exact", "network": base.CAIP2(), "amount": price, "asset": usdc.Address, "payTo": payTo,
			"maxTimeoutSeconds": 60, "extra": extra,
		}},
	})
	if err != nil {
		return err
	}
	s.challenge = base64.StdEncoding.EncodeToString(v2)
	s.v1Body, err = json.Marshal(map[string]any{
		"x402Version": 1, "error": "X-PAYMENT header is required",
		"accepts": []any{map[string]any{
			"scheme": "exact", "network": base.Name, "maxAmountRequired": price, "asset": usdc.Address, "payTo": payTo,
			"resource": "http://seller.example/paid-v1", "description": "a report", "mimeType": "application/json",
			"maxTimeoutSeconds": 60, "extra": extra,
		}},
	})
	return err
}

// paid sells: it answers 402 without a payment header, and the goods with a receipt otherwise.
func (s *seller) paid(v1 bool) http.HandlerFunc {
	payment, receipt, network := x402.HeaderSignature, x402.HeaderResponse, "eip155:8453"
	if v1 {
		payment, receipt, network = x402.HeaderV1Payment, x402.HeaderV1Response, "base"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		serial, counts := q.Get("n"), q.Get("m") == "1"
		if r.Header.Get(payment) != "" {
			if counts {
				s.retried(serial)
			}
			w.Header().Set(receipt, receiptOf(network))
			answerJSON(w, http.StatusOK, []byte(freeBody))
			return
		}
		body := []byte("{}")
		if v1 {
			body = s.v1Body
		} else {
			w.Header().Set(x402.HeaderRequired, s.challenge)
		}
		answerJSON(w, http.StatusPaymentRequired, body)
		if counts {
			s.mu.Lock()
			s.asked[serial] = time.Now()
			s.mu.Unlock()
		}
	}
}

func (s *seller) retried(serial string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.asked[serial]; ok {
		s.gaps = append(s.gaps, now.Sub(at))
		delete(s.asked, serial)
	}
}

// takeGaps returns p50 and p99, in milliseconds, of the gaps since its last call.
func (s *seller) takeGaps() (p50, p99 float64, n int) {
	s.mu.Lock()
	gaps := s.gaps
	s.gaps, s.asked = nil, map[string]time.Time{}
	s.mu.Unlock()
	p50, p99 = percentiles(gaps)
	return p50, p99, len(gaps)
}

const (
	// toolCall calls a tool that costs nothing, and toolResult answers it. Both are about as long as usual ones.
	toolCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Berlin","days":3},` +
		`"_meta":{"progressToken":1}}}`
	toolResult = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"fair, the wind is calm, and there is nothing to pay here"}],` +
		`"structuredContent":{"weather":"fair","wind":"calm"},"isError":false}}`
)

func callFree(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	answerJSON(w, http.StatusOK, []byte(toolResult))
}

func (s *seller) supported(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, http.StatusOK, []byte(`{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:8453"}],"extensions":[],"signers":{}}`))
}

func (s *seller) verify(w http.ResponseWriter, r *http.Request) {
	payer, ok := payerOf(w, r)
	if !ok {
		return
	}
	answerJSON(w, http.StatusOK, fmt.Appendf(nil, `{"isValid":true,"payer":%q}`, payer))
}

func (s *seller) settle(w http.ResponseWriter, r *http.Request) {
	payer, ok := payerOf(w, r)
	if !ok {
		return
	}
	answerJSON(w, http.StatusOK, fmt.Appendf(nil, `{"success":true,"transaction":%q,"network":"eip155:8453","payer":%q}`, transaction(), payer))
}

// payerOf reads the payer in the body of /verify and /settle.
func payerOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	var body struct {
		PaymentPayload struct {
			Payload struct{ Authorization struct{ From string } }
		}
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&body); err != nil {
		answerJSON(w, http.StatusBadRequest, []byte(`{"error":"not a payment"}`))
		return "", false
	}
	return body.PaymentPayload.Payload.Authorization.From, true
}

// transaction returns a hash that no other settlement has.
func transaction() string {
	var hash [32]byte
	rand.Read(hash[:]) // cannot fail
	return "0x" + hex.EncodeToString(hash[:])
}

func receiptOf(network string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"success":true,"transaction":%q,"network":%q}`, transaction(), network))
}

func answerJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client reports its own error
}
