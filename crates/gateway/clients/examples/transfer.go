// Moves 30 from ada to bob, in one transaction: transfer PORT
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, bank := context.Background(), redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1]})
	if err := bank.MSet(ctx, "account:ada", 100, "account:bob", 0).Err(); err != nil {
		log.Fatal(err)
	}
	answers, err := bank.TxPipelined(ctx, func(transfer redis.Pipeliner) error {
		transfer.DecrBy(ctx, "account:ada", 30)
		transfer.IncrBy(ctx, "account:bob", 30)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answers)
}
