/* The smallest program to instrument. Shows the fixed cost of profiling. */
static __attribute__((noinline)) int answer(void)
{
    return 0;
}

int main(void)
{
    return answer();
}
