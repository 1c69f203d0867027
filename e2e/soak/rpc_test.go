package soak

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// rpc answers the JSON-RPC calls that a payer makes of the ledger.
type rpc struct{ *ledger }

const (
	topicTransfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	topicUsed     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
)

// maxLogs bounds the logs in one answer, as many providers do.
const maxLogs = 10_000

func trimHex(s string) string { return strings.TrimPrefix(s, "0x") }

func sumOf(parts ...string) [32]byte { return sha256.Sum256([]byte(strings.Join(parts, "\x00"))) }

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

func (c rpc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": ask.ID}
	if result, err := c.call(ask.Method, ask.Params); err != nil {
		answer["error"] = map[string]any{"code": -32000, "message": err.Error()}
	} else {
		answer["result"] = result
	}
	writeJSON(w, http.StatusOK, answer)
}

func (c rpc) call(method string, params []json.RawMessage) (any, error) {
	switch method {
	case "eth_chainId":
		return hexNumber(c.network.ChainID), nil
	case "eth_blockNumber":
		return hexNumber(c.latest()), nil
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		n, err := c.block(params[0])
		if err != nil {
			return nil, nil //nolint:nilnil,nilerr // a block that is not there is null
		}
		return map[string]any{
			"number": hexNumber(n), "hash": c.hashOf(n), "timestamp": hexNumber(c.timeOf(n)), "parentHash": c.hashOf(n - min(n, 1)),
		}, nil
	case "eth_call":
		return c.ethCall(params)
	case "eth_getLogs":
		return c.getLogs(params[0])
	}
	return nil, fmt.Errorf("the method %s does not exist", method)
}

// block reads a tag, a number, a hash, or an object with a hash.
func (c rpc) block(param json.RawMessage) (uint64, error) {
	var byHash struct{ BlockHash string }
	var s string
	if json.Unmarshal(param, &s) != nil {
		if err := json.Unmarshal(param, &byHash); err != nil {
			return 0, err
		}
		s = byHash.BlockHash
	}
	latest := c.latest()
	switch s {
	case "latest", "pending", "":
		return latest, nil
	case "safe", "finalized":
		return latest - min(latest, safeDistance), nil
	case "earliest":
		return 0, nil
	}
	if len(s) == 66 {
		if n, ok := c.numbered(s); ok {
			return n, nil
		}
		return 0, fmt.Errorf("unknown block %s", s)
	}
	n, err := strconv.ParseUint(trimHex(s), 16, 64)
	if err != nil || n > latest {
		return 0, fmt.Errorf("unknown block %s", s)
	}
	return n, nil
}

func (c rpc) ethCall(params []json.RawMessage) (any, error) {
	var call struct{ To, Data, Input string }
	if err := json.Unmarshal(params[0], &call); err != nil {
		return nil, err
	}
	block := c.latest()
	if len(params) > 1 {
		var err error
		if block, err = c.block(params[1]); err != nil {
			return nil, err
		}
	}
	data, err := hex.DecodeString(trimHex(call.Data + call.Input))
	if err != nil || len(data) < 4 || !strings.EqualFold(call.To, c.token.Address.String()) {
		return nil, fmt.Errorf("execution reverted")
	}
	arg := func(i int) (w [32]byte) { copy(w[:], data[min(4+32*i, len(data)):]); return w }
	var out [32]byte
	switch hex.EncodeToString(data[:4]) {
	case "3644e515":
		out = c.token.DomainSeparator
	case "70a08231":
		w := arg(0)
		new(big.Int).SetUint64(c.balance(x402.EVMAddress([20]byte(w[12:])))).FillBytes(out[:])
	case "e94a0102":
		w := arg(0)
		if c.usedAt(x402.EVMAddress([20]byte(w[12:])), arg(1), block) {
			out[31] = 1
		}
	case "dd62ed3e": // no owner has allowed anything
	default:
		return nil, fmt.Errorf("execution reverted")
	}
	return "0x" + hex.EncodeToString(out[:]), nil
}

// filter selects logs. A topic is null, a value, or a list of values.
type filter struct {
	Topics                        []json.RawMessage
	FromBlock, ToBlock, BlockHash string
}

// topics are the values of the i-th topic that match; none: all do.
func (f filter) topics(i int) (values []string) {
	if i >= len(f.Topics) {
		return nil
	}
	var one string
	if json.Unmarshal(f.Topics[i], &one) == nil && one != "" {
		return []string{one}
	}
	_ = json.Unmarshal(f.Topics[i], &values) // null stays none
	return values
}

func matches(values []string, v string) bool {
	for _, want := range values {
		if strings.EqualFold(want, v) {
			return true
		}
	}
	return len(values) == 0
}

// words are topics in binary, so that a block's transfers are compared without writing each of them out.
func words(values []string) (list [][32]byte, err error) {
	for _, v := range values {
		n, err := x402.ParseNonce(strings.ToLower(v))
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func oneOf(list [][32]byte, w [32]byte) bool { return len(list) == 0 || slices.Contains(list, w) }

func addressWord(a x402.Address) (w [32]byte) { copy(w[12:], a.Bytes()); return w }

func hexWord(w [32]byte) string { return "0x" + hex.EncodeToString(w[:]) }

func (c rpc) getLogs(param json.RawMessage) (any, error) {
	var f filter
	if err := json.Unmarshal(param, &f); err != nil {
		return nil, err
	}
	first, last, err := c.blocks(f)
	if err != nil {
		return nil, err
	}
	second, err := words(f.topics(1))
	if err != nil {
		return nil, err
	}
	third, err := words(f.topics(2))
	if err != nil {
		return nil, err
	}
	used, moved := matches(f.topics(0), topicUsed), matches(f.topics(0), topicTransfer)
	var found []transfer
	if len(third) == 1 && !moved {
		found = c.byNonce(third[0], first, last)
	} else {
		found = c.between(first, last)
	}
	logs := []map[string]any{}
	add := func(i int, t transfer, topic string, to [32]byte, data string) {
		if !oneOf(second, addressWord(t.from)) || !oneOf(third, to) {
			return
		}
		logs = append(logs, map[string]any{
			"address": c.token.Address.String(), "topics": []string{topic, hexWord(addressWord(t.from)), hexWord(to)}, "data": data,
			"blockNumber": hexNumber(t.block), "blockHash": c.hashOf(t.block), "transactionHash": t.tx(),
			"transactionIndex": hexNumber(uint64(i)), "logIndex": hexNumber(uint64(i)), "removed": false,
		})
	}
	for i, t := range found {
		if used {
			add(2*i, t, topicUsed, t.nonce, "0x")
		}
		if moved {
			add(2*i+1, t, topicTransfer, addressWord(t.to), hexWord(money.New(t.value).Bytes32()))
		}
		if len(logs) > maxLogs {
			return nil, fmt.Errorf("query returned more than %d results", maxLogs)
		}
	}
	return logs, nil
}

// blocks are the first and the last one that a filter is about.
func (c rpc) blocks(f filter) (first, last uint64, err error) {
	quoted := func(s string) json.RawMessage { return json.RawMessage(strconv.Quote(s)) }
	if f.BlockHash != "" {
		first, err = c.block(quoted(f.BlockHash))
		return first, first, err
	}
	if first, err = c.block(quoted(f.FromBlock)); err != nil {
		return 0, 0, err
	}
	last, err = c.block(quoted(f.ToBlock))
	return first, last, err
}
