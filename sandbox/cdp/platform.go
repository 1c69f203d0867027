package cdp

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"github.com/go-jose/go-jose/v4"
)

// BasePath precedes every path of the API.
const BasePath = "/platform"

const facilitatorPath = BasePath + "/v2/x402/"

// maxBody bounds a request, in bytes.
const maxBody = 1 << 20

// Options configures a Platform. KeyID, KeyAlgorithm, Key and WalletKey are required.
type Options struct {
	// KeyID names the API key, and Key is its public key: of Ed25519 for jose.EdDSA, of P-256 for
	// jose.ES256.
	KeyID        string
	KeyAlgorithm jose.SignatureAlgorithm
	Key          any
	// WalletKey is the public key of the wallet secret.
	WalletKey *ecdsa.PublicKey
	// Facilitator answers calls below /v2/x402, by the rest of their paths. Default: none.
	Facilitator http.Handler
	Now         func() time.Time // default: time.Now
}

// Platform is the http.Handler of the stand-in. It is safe for concurrent use.
type Platform struct {
	opts       Options
	operations []operation

	mu       sync.Mutex
	tokens   map[string]bool // jti of the wallet tokens that were used
	accounts []*account
	answered map[string]answer // by idempotency key
	faults   []string
}

// account is one server wallet.
type account struct {
	Address string    `json:"address"`
	Name    string    `json:"name,omitempty"`
	Created time.Time `json:"createdAt"`
	key     *ecdsa.PrivateKey
}

// answer is a complete answer; hash is of the request that it belongs to.
type answer struct {
	status int
	body   []byte
	hash   [sha256.Size]byte
}

// New returns a Platform without accounts.
func New(o Options) (*Platform, error) {
	operations, err := readDescription()
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Platform{opts: o, operations: operations, tokens: map[string]bool{}, answered: map[string]answer{}}, nil
}

// Accounts returns the number of accounts.
func (p *Platform) Accounts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.accounts)
}

// Key returns the private key of an account, nil for an unknown one.
func (p *Platform) Key(address string) *ecdsa.PrivateKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.accounts {
		if a.Address == address {
			return a.key
		}
	}
	return nil
}

// Faults lists the platform's own answers that its description does not have. It must be empty.
func (p *Platform) Faults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// failure is an answer of the description's type Error.
type failure struct {
	status        int
	Type, Message string
}

func (p *Platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, facilitatorPath); ok && p.opts.Facilitator != nil {
		p.facilitate(w, r, rest)
		return
	}
	path, below := strings.CutPrefix(r.URL.Path, BasePath)
	for _, o := range p.operations {
		if parts := o.match.FindStringSubmatch(path); below && parts != nil && o.method == r.Method {
			p.serve(w, r, o, parts[1:])
			return
		}
	}
	send(w, encodeFailure(failure{http.StatusNotFound, "not_found", "there is no " + r.Method + " " + r.URL.Path}))
}

// facilitate hands on a call of the facilitator that has a token.
func (p *Platform) facilitate(w http.ResponseWriter, r *http.Request, rest string) {
	if err := p.bearer(r); err != nil {
		send(w, encodeFailure(failure{http.StatusUnauthorized, "unauthorized", err.Error()}))
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath, inner.RequestURI = "/"+rest, "", ""
	p.opts.Facilitator.ServeHTTP(w, inner)
}

func (p *Platform) serve(w http.ResponseWriter, r *http.Request, o operation, parts []string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	a := p.answer(r, o, parts, body)
	if a.status == http.StatusUnauthorized && o.answers["401"] == nil {
		send(w, a) // each call may be unauthorized, and some do not say so
		return
	}
	if err := o.checkAnswer(a.status, a.body); err != nil {
		p.mu.Lock()
		p.faults = append(p.faults, err.Error())
		p.mu.Unlock()
	}
	send(w, a)
}

func (p *Platform) answer(r *http.Request, o operation, parts []string, body []byte) answer {
	if err := p.bearer(r); err != nil {
		return encodeFailure(failure{http.StatusUnauthorized, "unauthorized", err.Error()})
	}
	if err := o.checkRequest(r, parts, body); err != nil {
		return encodeFailure(failure{http.StatusBadRequest, "invalid_request", err.Error()})
	}
	if r.Method != http.MethodGet {
		if err := p.wallet(r, body); err != nil {
			return encodeFailure(failure{http.StatusUnauthorized, "unauthorized", "Wallet authentication error: " + err.Error()})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	once := r.Header.Get("X-Idempotency-Key")
	hash := sha256.Sum256([]byte(r.Method + r.URL.Path + string(body)))
	if earlier, known := p.answered[once]; known && once != "" {
		if earlier.hash != hash {
			return encodeFailure(failure{http.StatusUnprocessableEntity, "idempotency_error", "Idempotency key '" + once + "' was already used with a different request payload."})
		}
		return earlier
	}
	a := p.do(o, parts, body)
	if a.hash = hash; once != "" && a.status < http.StatusBadRequest {
		p.answered[once] = a
	}
	return a
}

// do carries a checked request out.
func (p *Platform) do(o operation, parts []string, body []byte) answer {
	if len(parts) == 0 {
		if o.method == http.MethodGet {
			return encode(http.StatusOK, map[string]any{"accounts": append([]*account{}, p.accounts...)})
		}
		return p.create(body)
	}
	var found *account
	for _, a := range p.accounts {
		if strings.EqualFold(a.Address, parts[0]) {
			found = a
		}
	}
	switch {
	case found == nil:
		return encodeFailure(failure{http.StatusNotFound, "not_found", "EVM account with the given address not found."})
	case o.method == http.MethodGet:
		return encode(http.StatusOK, found)
	}
	return found.sign(body)
}

func (p *Platform) create(body []byte) answer {
	var wanted struct{ Name string }
	if len(body) > 0 {
		if err := json.Unmarshal(body, &wanted); err != nil {
			return encodeFailure(failure{http.StatusBadRequest, "invalid_request", err.Error()})
		}
	}
	for _, a := range p.accounts {
		if wanted.Name != "" && a.Name == wanted.Name {
			return encodeFailure(failure{http.StatusConflict, "already_exists", "EVM account with the given name already exists."})
		}
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return encodeFailure(failure{http.StatusInternalServerError, "internal_server_error", err.Error()})
	}
	made := &account{Address: crypto.PubkeyToAddress(key.PublicKey).Hex(), Name: wanted.Name, Created: p.opts.Now().UTC(), key: key}
	p.accounts = append(p.accounts, made)
	return encode(http.StatusCreated, made)
}

// sign signs typed data as EIP-712 says.
func (a *account) sign(body []byte) answer {
	var data apitypes.TypedData
	err := json.Unmarshal(body, &data)
	var hash []byte
	if err == nil {
		hash, _, err = apitypes.TypedDataAndHash(data)
	}
	if err != nil {
		return encodeFailure(failure{http.StatusBadRequest, "invalid_request", err.Error()})
	}
	signature, err := crypto.Sign(hash, a.key)
	if err != nil {
		return encodeFailure(failure{http.StatusInternalServerError, "internal_server_error", err.Error()})
	}
	signature[64] += 27
	return encode(http.StatusOK, map[string]string{"signature": hexutil.Encode(signature)})
}

func encodeFailure(f failure) answer {
	return encode(f.status, map[string]string{
		"errorType": f.Type, "errorMessage": f.Message, "correlationId": "stand-in",
		"errorLink": "https://docs.cdp.coinbase.com/api-reference/v2/errors#" + f.Type,
	})
}

func encode(status int, v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("cdp: %v", err)) // only values of this package are encoded
	}
	return answer{status: status, body: body}
}

func send(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}
