package chain_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The sandbox chain's node starts these once per process and drains them after its end.
		goleak.IgnoreTopFunction("github.com/ethereum/go-ethereum/core.(*txSenderCacher).cache"),
		goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"),
	)
}

var (
	base    = mustNetwork()
	usdc    = base.Assets[0]
	payer   = x402.EVMAddress([20]byte{0: 0xaa, 19: 1})
	payee   = x402.EVMAddress([20]byte{0: 0xbb, 19: 2})
	created = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

func mustNetwork() x402.Network {
	n, ok := x402.NetworkByWire("base")
	if !ok {
		panic("base is not pinned")
	}
	return n
}

func query() pay.TraceQuery {
	return pay.TraceQuery{Network: base, Asset: usdc, Created: created, Authorization: x402.Authorization{
		From: payer, To: payee, Value: money.New(10_000),
		ValidBefore: uint64(created.Unix()) + 60, Nonce: x402.Nonce{31: 9},
	}}
}

const (
	topicTransfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	topicUsed     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
	topicCanceled = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
)

// refusal is a JSON-RPC error.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// node is a scripted RPC: a chain of even blocks in which one authorization is used or canceled.
type node struct {
	chainID     uint64
	separator   string
	balance     string
	genesisTime int64
	interval    int64 // seconds between blocks
	safe, head  uint64
	lag         uint64 // how many blocks the latest tag is behind head
	noSafe      bool   // refuse the tag; finalized is safe-10
	event       uint64 // the block that used or canceled the authorization; 0: none
	canceled    bool
	transfer    uint64         // value of the transfer in the same transaction; 0: none
	maxRange    uint64         // largest range of eth_getLogs; 0: any
	broken      map[string]any // method → result or refusal, instead of the script
	gone        bool           // refuse states at a block's hash
	pruned      uint64         // refuse this block; 0: none
	hidden      bool           // eth_getLogs finds nothing
	fork        string         // last digit of the hashes of blocks that are not Base's; "": Base

	mu    sync.Mutex
	calls map[string]int
}

// onBase returns a node on Base with two seconds between blocks. Block 1,000,000 is at `created`.
func onBase() *node {
	return &node{
		chainID: 8453, separator: fmt.Sprintf("0x%x", usdc.DomainSeparator), balance: fmt.Sprintf("0x%064x", 1_500_000),
		genesisTime: created.Unix() - 2_000_000, interval: 2, safe: 1_000_100, head: 1_000_160,
		transfer: 10_000, calls: map[string]int{},
	}
}

func hash(n uint64) string { return fmt.Sprintf("0x%063xf", n) }

// hash returns the hash of a block.
func (n *node) hash(number uint64) string {
	return strings.TrimSuffix(hash(number), "f") + cmp.Or(n.fork, "f")
}

func (n *node) time(number uint64) int64 { return n.genesisTime + int64(number)*n.interval }

func (n *node) block(number uint64) any {
	if number > n.head {
		return nil
	}
	return map[string]any{
		"number": fmt.Sprintf("0x%x", number), "hash": n.hash(number), "timestamp": fmt.Sprintf("0x%x", n.time(number)),
		"transactions": []string{hash(1)}, "miner": payer.String(),
	}
}

func (n *node) log(topic string, from, to, data string) map[string]any {
	topics := []string{topic, from, to}
	return map[string]any{
		"address": strings.ToLower(usdc.Address.String()), "topics": topics, "data": data, "removed": false,
		"blockNumber": fmt.Sprintf("0x%x", n.event), "blockHash": n.hash(n.event), "transactionHash": hash(0xabc), "logIndex": "0x0",
	}
}

func padded(a x402.Address) string { return fmt.Sprintf("0x%064x", a.Bytes()) }

// answer returns a result or a refusal.
func (n *node) answer(method string, params []json.RawMessage) any {
	n.mu.Lock()
	n.calls[method]++
	n.mu.Unlock()
	if scripted, ok := n.broken[method]; ok {
		return scripted
	}
	switch method {
	case "eth_chainId":
		return fmt.Sprintf("0x%x", n.chainID)
	case "eth_getBlockByNumber":
		return n.blockByName(params[0])
	case "eth_call":
		return n.ethCall(params)
	case "eth_getLogs":
		return n.getLogs(params[0])
	case "eth_getTransactionByHash": // of an ordinary transfer
		var name string
		_ = json.Unmarshal(params[0], &name)
		in := map[string]uint64{hash(0xa): 10, hash(0xc): 11}[name]
		return map[string]any{"hash": name, "blockHash": n.hash(in), "input": "0xa9059cbb"}
	}
	return refusal{-32601, "no such method"}
}

func (n *node) blockByName(param json.RawMessage) any {
	var name string
	_ = json.Unmarshal(param, &name)
	switch name {
	case "safe":
		if n.noSafe {
			return refusal{-32602, "unknown block tag"}
		}
		return n.block(n.safe)
	case "finalized":
		return n.block(n.safe - 10)
	case "latest":
		return n.block(n.head - n.lag)
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(name, "0x"), 16, 64)
	if err != nil {
		return refusal{-32602, "bad block"}
	}
	if n.pruned != 0 && number == n.pruned {
		return refusal{4444, "pruned history unavailable"}
	}
	return n.block(number)
}

func (n *node) ethCall(params []json.RawMessage) any {
	var call struct{ To, Data string }
	_ = json.Unmarshal(params[0], &call)
	if call.To != usdc.Address.String() {
		return "0x"
	}
	switch {
	case call.Data == "0x3644e515":
		return n.separator
	case call.Data == "0x70a08231"+padded(payer)[2:]:
		return n.balance
	case call.Data == "0xe94a0102"+padded(payer)[2:]+fmt.Sprintf("%064x", 9):
		var at struct {
			BlockHash        string
			RequireCanonical bool
		}
		if err := json.Unmarshal(params[1], &at); err != nil || !at.RequireCanonical || n.gone {
			return refusal{-32000, "hash is not currently canonical"}
		}
		number, _ := strconv.ParseUint(at.BlockHash[2:65], 16, 64)
		if at.BlockHash != n.hash(number) {
			return refusal{-32000, "header for hash not found"}
		}
		if n.event != 0 && number >= n.event {
			return fmt.Sprintf("0x%064x", 1)
		}
		return fmt.Sprintf("0x%064x", 0)
	}
	return refusal{3, "execution reverted"}
}

func (n *node) getLogs(param json.RawMessage) any {
	var filter struct {
		Address, FromBlock, ToBlock, BlockHash string
		Topics                                 []any
	}
	_ = json.Unmarshal(param, &filter)
	none := []any{}
	if n.event == 0 || n.hidden && n.maxRange == 0 || filter.Address != usdc.Address.String() {
		return none
	}
	if filter.BlockHash != "" {
		if filter.BlockHash != n.hash(n.event) || n.transfer == 0 || filter.Topics[0] != topicTransfer {
			return none
		}
		return []any{n.log(topicTransfer, padded(payer), padded(payee), fmt.Sprintf("0x%064x", n.transfer))}
	}
	from, _ := strconv.ParseUint(filter.FromBlock[2:], 16, 64)
	to, _ := strconv.ParseUint(filter.ToBlock[2:], 16, 64)
	if to < from || to > n.head || n.maxRange != 0 && to-from+1 > n.maxRange {
		return refusal{-32005, "block range too large"}
	}
	if n.hidden || n.event < from || n.event > to {
		return none
	}
	topic := topicUsed
	if n.canceled {
		topic = topicCanceled
	}
	return []any{n.log(topic, padded(payer), fmt.Sprintf("0x%064x", 9), "0x")}
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": call.ID}
	switch result := n.answer(call.Method, call.Params).(type) {
	case refusal:
		answer["error"] = result
	case http.HandlerFunc:
		result(w, r)
		return
	default:
		answer["result"] = result
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (n *node) count(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

// connect starts the node and a client of it.
func connect(t *testing.T, n http.Handler, o chain.Options) *chain.Client {
	t.Helper()
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	o.URL = server.URL + o.URL
	c := must(chain.New(o))
	t.Cleanup(c.Close)
	return c
}

// says returns a raw HTTP answer.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// answers returns a node with scripted logs: by block range (false) and by block hash (true).
type answers struct {
	*node
	logs map[bool]any
}

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if strings.Contains(string(body), "eth_getLogs") {
		result, _ := json.Marshal(a.logs[strings.Contains(string(body), "blockHash")])
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, result)
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	a.node.ServeHTTP(w, r)
}

// bent returns a node whose early blocks all came long ago, one a second.
type bent struct {
	*node
	burst int64
}

func (b bent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	recorder := httptest.NewRecorder()
	b.node.ServeHTTP(recorder, r)
	var answer map[string]any
	_ = json.Unmarshal(recorder.Body.Bytes(), &answer)
	if header, ok := answer["result"].(map[string]any); ok {
		at, _ := strconv.ParseInt(header["timestamp"].(string)[2:], 16, 64)
		if at < b.burst {
			number, _ := strconv.ParseInt(header["number"].(string)[2:], 16, 64)
			header["timestamp"] = fmt.Sprintf("0x%x", b.burst-10_000_000+number)
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// must returns a value of a set-up that cannot fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
