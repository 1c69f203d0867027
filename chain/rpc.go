package chain

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/purserpay/purser/internal/endpoint"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/x402"
)

// Function selectors and event topics of the token (ERC-20, EIP-3009).
const (
	selectorBalanceOf          = "70a08231" // balanceOf(address)
	selectorAuthorizationState = "e94a0102" // authorizationState(address,bytes32)
	selectorDomainSeparator    = "3644e515" // DOMAIN_SEPARATOR()
	selectorDecimals           = "313ce567" // decimals()

	topicTransfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef" // Transfer(address,address,uint256)
	topicUsed     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5" // AuthorizationUsed(address,bytes32)
	topicCanceled = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81" // AuthorizationCanceled(address,bytes32)
)

// word is one ABI word.
type word = [32]byte

// header holds the needed fields of a block header.
type header struct {
	Number quantity
	Hash   string
	Time   quantity
}

// logEntry holds the needed fields of a log.
type logEntry struct {
	Address     x402.Address
	Topics      []string
	Data        string
	BlockNumber quantity
	BlockHash   string
	Transaction string   `json:"transactionHash"`
	Index       quantity `json:"logIndex"`
	Removed     bool
}

// block returns the log's block, without its time.
func (l logEntry) block() header {
	return header{Number: l.BlockNumber, Hash: strings.ToLower(l.BlockHash)}
}

// quantity is a number in the form of JSON-RPC: "0x1b4".
type quantity uint64

func (q *quantity) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || !ok {
		return errors.New("not a number in hexadecimal")
	}
	*q = quantity(n)
	return nil
}

func (q quantity) MarshalText() ([]byte, error) {
	return strconv.AppendUint([]byte("0x"), uint64(q), 16), nil
}

// atLatest as a call's block reads the newest state.
const atLatest = "latest"

// atBlock returns a call's block parameter that reads the state of exactly this block (EIP-1898). The
// RPC must refuse when it does not have the block, or no longer has it on its chain.
func atBlock(b header) any {
	return struct {
		Hash      string `json:"blockHash"`
		Canonical bool   `json:"requireCanonical"`
	}{b.Hash, true}
}

// rpcError holds a JSON-RPC error of one call.
type rpcError struct {
	method  string
	code    int64
	message string
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("RPC %s: error %d: %s", e.method, e.code, e.message)
}

// statusError reports an HTTP answer without JSON-RPC in it.
type statusError struct {
	method, text string
	status       int
}

func (e *statusError) Error() string { return "RPC " + e.method + ": answered " + e.text }

// ErrNoToken: there is no contract at the address of a token.
var ErrNoToken = errors.New("no token")

var errNoBlock = errors.New("the RPC does not have the block")

// call makes one JSON-RPC call. Calls are not batched, because providers limit or refuse batches.
func (c *Client) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Method  string `json:"method"`
		Params  []any  `json:"params"`
	}{"2.0", 1, method, params})
	if err != nil {
		return fmt.Errorf("RPC %s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	got, err := c.endpoint.Call(ctx, http.MethodPost, "", endpoint.Repeatable(http.Header{}), body) // a call reads, or sends a signed transaction: repeating it is harmless
	if err != nil {
		return fmt.Errorf("RPC %s: %w", method, err)
	}
	var answer struct {
		ID     json.RawMessage
		Result json.RawMessage
		Error  *struct {
			Code    int64
			Message string
		}
	}
	if got.Status == http.StatusTooManyRequests {
		return &statusError{method, got.StatusText(), got.Status}
	}
	if err := json.Unmarshal(got.Body, &answer); err != nil || answer.Error == nil && answer.Result == nil {
		return &statusError{method, got.StatusText() + " without JSON-RPC", got.Status}
	}
	if answer.Error != nil { // some RPCs send an error with id null
		return &rpcError{method, answer.Error.Code, c.readable(answer.Error.Message)}
	}
	if string(answer.ID) != "1" {
		return fmt.Errorf("RPC %s: the answer is to another call", method)
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return fmt.Errorf("RPC %s: the answer has another form than expected", method)
	}
	return nil
}

// readable returns the RPC's message: without a key, printable, and at most 200 bytes.
func (c *Client) readable(message string) string {
	return words.Truncate(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, c.endpoint.Scrub(message)), 200)
}

func (c *Client) chainID(ctx context.Context) (uint64, error) {
	var id quantity
	err := c.call(ctx, &id, "eth_chainId")
	return uint64(id), err
}

// block reads a header by tag or number. The error is errNoBlock when the RPC answers null.
func (c *Client) block(ctx context.Context, tagOrNumber any) (header, error) {
	var found *struct {
		Number, Timestamp *quantity
		Hash              string
	}
	if err := c.call(ctx, &found, "eth_getBlockByNumber", tagOrNumber, false); err != nil {
		return header{}, err
	}
	if found == nil {
		return header{}, fmt.Errorf("RPC eth_getBlockByNumber: %w", errNoBlock)
	}
	if found.Number == nil || found.Timestamp == nil || !x402.ValidTransaction(found.Hash) {
		return header{}, errors.New("RPC eth_getBlockByNumber: the block lacks its number, time or hash")
	}
	return header{*found.Number, strings.ToLower(found.Hash), *found.Timestamp}, nil
}

func (c *Client) blockNumbered(ctx context.Context, n uint64) (header, error) {
	b, err := c.block(ctx, quantity(n))
	if err == nil && uint64(b.Number) != n {
		err = fmt.Errorf("RPC eth_getBlockByNumber: asked for block %d, got %d", n, b.Number)
	}
	return b, err
}

// tokenCall calls a contract function that returns one word.
func (c *Client) tokenCall(ctx context.Context, contract x402.Address, at any, selector string, args ...word) (word, error) {
	data := "0x" + selector
	for _, arg := range args {
		data += hex.EncodeToString(arg[:])
	}
	var result string
	if err := c.call(ctx, &result, "eth_call", map[string]string{"to": contract.String(), "data": data}, at); err != nil {
		return word{}, err
	}
	if result == "0x" {
		return word{}, fmt.Errorf("RPC eth_call: %w at %s", ErrNoToken, contract)
	}
	value, err := x402.ParseNonce(result) // any 32 bytes
	if err != nil {
		return word{}, errors.New("RPC eth_call: the answer is not one word")
	}
	return word(value), nil
}

// logs reads the logs that an eth_getLogs filter selects.
func (c *Client) logs(ctx context.Context, filter map[string]any) ([]logEntry, error) {
	var logs []logEntry
	return logs, c.call(ctx, &logs, "eth_getLogs", filter)
}

// logsBetween returns a function that reads the logs of a filter in a range of blocks.
func (c *Client) logsBetween(filter map[string]any) func(ctx context.Context, from, to uint64) ([]logEntry, error) {
	return func(ctx context.Context, from, to uint64) ([]logEntry, error) {
		question := maps.Clone(filter)
		question["fromBlock"], question["toBlock"] = quantity(from), quantity(to)
		return c.logs(ctx, question)
	}
}

// overQuota lists the codes by which RPCs refuse a question because there were too many before it.
var overQuota = []int64{http.StatusTooManyRequests, -32005, -32007, -32016, -32029, -32090, -32097}

// lacks reports whether the RPC says that it does not have what was asked for, such as an old state. An
// RPC that has had too many questions says nothing of the kind.
func lacks(err error) bool {
	e, refused := errors.AsType[*rpcError](err)
	return refused && !slices.Contains(overQuota, e.code)
}

// mayBeTooLarge reports whether the RPC may answer a smaller range. Every refusal counts.
func mayBeTooLarge(err error) bool {
	if _, refused := errors.AsType[*rpcError](err); refused {
		return true
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status == http.StatusBadRequest || s.status == http.StatusRequestEntityTooLarge
	}
	return errors.Is(err, endpoint.ErrTooLarge)
}

func addressWord(a x402.Address) (w word) {
	copy(w[12:], a.Bytes())
	return w
}

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }
