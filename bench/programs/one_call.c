/* The least program there is to instrument: what does being profiled cost before any work? */
static __attribute__((noinline)) int answer(void)
{
    return 0;
}

int main(void)
{
    return answer();
}
