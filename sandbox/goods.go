package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
)

// flow says when a seller settles.
type flow string

const (
	// flowAuthorization verifies, makes the answer, settles, and then sends the answer. Most
	// sellers do so.
	flowAuthorization flow = "authorization"
	// flowUpfront settles first, so that the answer can be streamed.
	flowUpfront flow = "upfront"
	// flowPrepaid delivers once for a payment that the payer has settled.
	flowPrepaid flow = "prepaid"
)

// Bounds on what buyers may ask of a good.
const (
	maxEcho     = 32 << 20
	maxEvents   = 1000
	maxInterval = time.Minute
)

// good is one offer of the seller.
type good struct {
	pattern     string       // for http.ServeMux
	price       money.Amount // in USDC's smallest unit; 0 is free
	version     int          // x402 version that sells it
	flow        flow
	description string
	mimeType    string
	serve       http.HandlerFunc
}

// goods lists all offers. A cent is 10,000 smallest units of USDC.
func goods() []good {
	cent := func(n uint64) money.Amount { return money.New(n * 10_000) }
	return []good{
		{"GET /weather", cent(1), 2, flowAuthorization, "The weather of the sandbox", "application/json", weather},
		{"POST /echo", cent(1), 2, flowAuthorization, "What was sent, sent back", "application/octet-stream", echo},
		{"GET /stream", cent(2), 2, flowUpfront, "Server-sent events, settled before the first one", "text/event-stream", stream},
		{"GET /report", cent(250), 2, flowAuthorization, "Dearer than what one proxied request may cost by default", "application/json", report},
		{"GET /prepaid", cent(1), 2, flowPrepaid, "Delivered once for a payment that its payer has settled", "application/json", weather},
		{"GET /v1/weather", cent(1), 1, flowAuthorization, "The weather, sold by x402 version 1", "application/json", weather},
		{"GET /free", money.Amount{}, 0, "", "Costs nothing", "application/json", free},
	}
}

// catalogue answers with a list of the goods.
func catalogue(w http.ResponseWriter, _ *http.Request) {
	type entry struct {
		Route       string `json:"route"`
		Price       string `json:"price_usdc"`
		Description string `json:"description"`
		Version     int    `json:"x402Version,omitempty"`
		Flow        flow   `json:"flow,omitempty"`
	}
	_, usdc := honest.Network()
	list := []entry{}
	for _, g := range goods() {
		list = append(list, entry{g.pattern, g.price.Format(usdc.Decimals), g.description, g.version, g.flow})
	}
	honest.WriteJSON(w, http.StatusOK, list)
}

func weather(w http.ResponseWriter, _ *http.Request) {
	honest.WriteJSON(w, http.StatusOK, map[string]any{"sky": "clear", "celsius": 21, "wind_kmh": 7})
}

func report(w http.ResponseWriter, _ *http.Request) {
	honest.WriteJSON(w, http.StatusOK, map[string]any{"title": "A very expensive report", "pages": 1})
}

func free(w http.ResponseWriter, _ *http.Request) {
	honest.WriteJSON(w, http.StatusOK, map[string]any{"price": 0})
}

// echo answers with the request's body. The buyer may choose the status: ?status=503.
func echo(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	if wanted := r.URL.Query().Get("status"); wanted != "" {
		n, err := strconv.Atoi(wanted)
		if err != nil || n < 200 || n > 599 {
			http.Error(w, "status is not one from 200 to 599", http.StatusBadRequest)
			return
		}
		status = n
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEcho))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// stream sends events one by one: ?events=5&interval=200ms.
func stream(w http.ResponseWriter, r *http.Request) {
	events, interval := 5, 200*time.Millisecond
	var err error
	if s := r.URL.Query().Get("events"); s != "" {
		if events, err = strconv.Atoi(s); err != nil || events < 0 || events > maxEvents {
			http.Error(w, fmt.Sprintf("events is not a number up to %d", maxEvents), http.StatusBadRequest)
			return
		}
	}
	if s := r.URL.Query().Get("interval"); s != "" {
		if interval, err = time.ParseDuration(s); err != nil || interval < 0 || interval > maxInterval {
			http.Error(w, fmt.Sprintf("interval is not a duration up to %s", maxInterval), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	for n := 1; n <= events; n++ {
		text, err := json.Marshal(map[string]int{"event": n, "of": events})
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", n, text); err != nil {
			return
		}
		if err := out.Flush(); err != nil || n == events {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(interval):
		}
	}
}
