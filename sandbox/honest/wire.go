package honest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/purserpay/purser/x402"
)

// Scheme is the only payment scheme of the sandbox.
const Scheme = "exact"

// Network returns the pinned network and asset that the sandbox chain imitates.
func Network() (x402.Network, x402.Asset) {
	base, _ := x402.NetworkByWire("base") // the first entry of the pinned table
	return base, base.Assets[0]
}

// WireNetwork returns the network's name in a protocol version.
func WireNetwork(version int) string {
	base, _ := Network()
	if version == 1 {
		return base.Name
	}
	return base.CAIP2()
}

// Requirement is one entry of accepts, in either protocol version.
type Requirement struct {
	Scheme            string `json:"scheme"`
	Network           string `json:"network"`
	Amount            string `json:"amount,omitempty"`            // version 2
	MaxAmountRequired string `json:"maxAmountRequired,omitempty"` // version 1
	Resource          string `json:"resource,omitempty"`          // version 1, as the next two
	Description       string `json:"description,omitempty"`
	MimeType          string `json:"mimeType,omitempty"`
	PayTo             string `json:"payTo"`
	Asset             string `json:"asset"`
	MaxTimeoutSeconds int    `json:"maxTimeoutSeconds"`
	Extra             *Extra `json:"extra,omitempty"`
}

// Price returns the amount as written, in the asset's smallest unit.
func (r Requirement) Price(version int) string {
	if version == 1 {
		return r.MaxAmountRequired
	}
	return r.Amount
}

// Extra holds the token's EIP-712 domain, in version 2 the payment flow, and further text that the
// payload must echo.
type Extra struct {
	Name        string `json:"name,omitempty"`
	Version     string `json:"version,omitempty"`
	PaymentFlow string `json:"paymentFlow,omitempty"`
	Memo        string `json:"memo,omitempty"`
}

// VerifyAnswer is the body of an answer to /verify.
type VerifyAnswer struct {
	IsValid        bool   `json:"isValid"`
	InvalidReason  string `json:"invalidReason,omitempty"`
	InvalidMessage string `json:"invalidMessage,omitempty"`
	Payer          string `json:"payer,omitempty"`
}

// SettleAnswer is the body of an answer to /settle, and a seller's receipt.
type SettleAnswer struct {
	Success      bool   `json:"success"`
	Transaction  string `json:"transaction"`
	Network      string `json:"network"`
	Payer        string `json:"payer,omitempty"`
	ErrorReason  string `json:"errorReason,omitempty"`
	ErrorMessage string `json:"errorMessage,omitempty"`
}

// InHeader encodes a value for an x402 header: JSON in standard base64.
func InHeader(v any) string {
	text, _ := json.Marshal(v) // cannot fail: headers hold texts and numbers
	return base64.StdEncoding.EncodeToString(text)
}

// Page is an http.ResponseWriter that keeps the answer of a handler.
type Page struct {
	Status int
	Body   []byte
	header http.Header
}

// NewPage returns an empty page with status 200.
func NewPage() *Page { return &Page{header: http.Header{}, Status: http.StatusOK} }

// Header returns the header of the kept answer.
func (p *Page) Header() http.Header { return p.header }

// WriteHeader keeps a status.
func (p *Page) WriteHeader(status int) { p.Status = status }

func (p *Page) Write(b []byte) (int, error) {
	p.Body = append(p.Body, b...)
	return len(b), nil
}

// SendTo sends the kept answer. It ignores a caller that has left.
func (p *Page) SendTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.header)
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.Body)
}

// WriteJSON answers with a status and a value. It ignores a caller that has left.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// ReadJSON reads one JSON value of at most limit bytes.
func ReadJSON(r io.Reader, limit int64, v any) error {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(text)) > limit {
		return fmt.Errorf("over %d bytes", limit)
	}
	return json.Unmarshal(text, v)
}
