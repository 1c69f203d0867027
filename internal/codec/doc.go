// Package codec writes payments, spend events and the sums of days as bytes, and reads them. It also
// derives nonces. The stores keep such bytes; where, and how they find them, is theirs.
package codec
